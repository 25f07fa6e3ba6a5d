"""Mismatches as rows of a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from reconciliation.models import Mismatch
from returns import money

CHUNK_ROWS = 500

HEADER = (
    *("number", "kind", "status", "opened_at", "day", "order", "return", "operation"),
    *("provider_refund", "erp_entry", "currency", "at_stake", "expected", "found", "detail"),
    *("assignee", "proposed_by", "resolution", "reason", "evidence", "resolved_by", "resolved_at"),
)


def rows(mismatches: QuerySet[Mismatch, Any]) -> Iterator[tuple[object, ...]]:
    """A header and a row for each; amounts in major units, times in UTC. One statement."""
    yield HEADER
    complete = mismatches.select_related(
        *("operation__order", "payment", "line", "entry"),
        *("assignee", "proposed_by", "resolved_by"),
    )
    for mismatch in complete.iterator(chunk_size=CHUNK_ROWS):
        yield _row(mismatch)


def _row(mismatch: Mismatch) -> tuple[object, ...]:
    operation, payment, line = mismatch.operation, mismatch.payment, mismatch.line
    refund = payment.provider_refund if payment else line.refund if line else ""
    return (
        *(mismatch.pk, mismatch.kind, mismatch.status, _time(mismatch.opened_at), mismatch.day),
        *((operation.order, operation, operation.operation_key) if operation else (None,) * 3),
        *(refund, mismatch.entry, mismatch.currency),
        *(_amount(mismatch, name) for name in ("at_stake_minor", "expected_minor", "found_minor")),
        *(mismatch.detail, mismatch.assignee, mismatch.proposed_by, mismatch.resolution),
        *(mismatch.reason, mismatch.evidence, mismatch.resolved_by, _time(mismatch.resolved_at)),
    )


def _amount(mismatch: Mismatch, name: str) -> Decimal | None:
    minor: int | None = getattr(mismatch, name)
    if minor is None or not mismatch.currency:
        return None
    return money.major(minor, mismatch.currency)


def _time(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else None
