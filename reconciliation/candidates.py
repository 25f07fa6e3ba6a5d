"""What a mismatch may belong to: by order, by the beginning of a reference, by amount.

Only to look at. Nothing is ever matched by amount; a person compares and links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from payments.models import PaymentTask
from reconciliation.models import Mismatch
from returns.models import RefundOperation, Tender

# How far apart two sides of the same payment may lie.
NEAR = timedelta(days=3)
MOST = 5
# A reference that has kept this much of its key still names few operations.
_BEGINNING = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]){4,24}", re.IGNORECASE)


@dataclass(frozen=True)
class Candidate:
    """A return that an item may belong to, or another item about the same money, and why."""

    operation: RefundOperation | None
    item: Mismatch | None
    why: str | Promise
    minor: int | None
    currency: str
    at: datetime


def of(mismatch: Mismatch) -> list[Candidate]:
    """The candidates, the likeliest first. The number of statements does not depend on rows."""
    found: dict[int, Candidate] = {}
    for candidate in (*_by_reference(mismatch), *_of_order(mismatch), *_by_amount(mismatch)):
        if candidate.operation and candidate.operation.pk != mismatch.operation_id:
            found.setdefault(candidate.operation.pk, candidate)
    return [*found.values(), *_other_items(mismatch)]


def _by_reference(mismatch: Mismatch) -> Iterator[Candidate]:
    """Operations whose key begins like a reference that was cut or changed."""
    texts = [mismatch.line.operation if mismatch.line else ""]
    texts.append(mismatch.entry.reference if mismatch.entry else "")
    between = Q(pk__in=[])
    for beginning in filter(None, map(_BEGINNING.match, texts)):
        digits = beginning[0].replace("-", "")
        first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
        between |= Q(operation_key__gte=first, operation_key__lte=last)
    yield from _candidates(RefundOperation.objects.filter(between), _("its key begins alike"))


def _of_order(mismatch: Mismatch) -> Iterator[Candidate]:
    of_order = Q(pk__in=[])
    if mismatch.operation is not None:
        of_order |= Q(order=mismatch.operation.order_id)
    if mismatch.line is not None and mismatch.line.payment:
        captured = Tender.objects.filter(
            provider=mismatch.line.provider, payment=mismatch.line.payment
        )
        of_order |= Q(order__in=captured.values("order"))
    yield from _candidates(RefundOperation.objects.filter(of_order), _("same order"))


def _candidates(rows: QuerySet[RefundOperation], why: Promise) -> Iterator[Candidate]:
    for row in rows.select_related("order").order_by("-pk")[:MOST]:
        yield Candidate(row, None, why, row.amount_minor, row.currency, row.state_changed_at)


def _by_amount(mismatch: Mismatch) -> Iterator[Candidate]:
    payments = PaymentTask.objects.filter(
        currency=mismatch.currency,
        amount_minor=_amount_of(mismatch),
        created_at__range=_near(_moment_of(mismatch)),
    ).exclude(operation=mismatch.operation_id)
    why = _("same amount, near in time")
    for task in payments.select_related("operation__order").order_by("-pk")[:MOST]:
        at = task.finished_at or task.created_at
        yield Candidate(task.operation, None, why, task.amount_minor, task.currency, at)


def _other_items(mismatch: Mismatch) -> Iterator[Candidate]:
    """The missing half of a payment is often an item of its own."""
    moment = _moment_of(mismatch)
    near = Q(opened_at__range=_near(moment)) | Q(
        day__range=[at.date() for at in _near(moment)],
    )
    others = Mismatch.objects.filter(
        near,
        status=Mismatch.Status.OPEN,
        currency=mismatch.currency,
        at_stake_minor=mismatch.at_stake_minor,
        at_stake_minor__gt=0,
    ).exclude(pk=mismatch.pk)
    for item in others.select_related("operation").order_by("pk")[:MOST]:
        yield Candidate(
            *(item.operation, item, _("open item of the same amount")),
            *(item.at_stake_minor, item.currency, item.opened_at),
        )


def _amount_of(mismatch: Mismatch) -> int:
    """What one payment would have to be, minor units."""
    return abs(mismatch.found_minor or 0) or mismatch.at_stake_minor


def _moment_of(mismatch: Mismatch) -> datetime:
    if mismatch.line is not None:
        return mismatch.line.at
    if mismatch.day is not None:
        return datetime.combine(mismatch.day, time(12), UTC)
    return mismatch.opened_at


def _near(moment: datetime) -> tuple[Any, Any]:
    return moment - NEAR, moment + NEAR
