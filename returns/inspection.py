"""Inspect what came back, unit by unit. Finding goods good never forces a refund."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from returns import locking, timeline
from returns.closing import refuse_stale
from returns.errors import Invalid, WrongState
from returns.models import Claim, Finding, Inspection, RefundOperation
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.states import OperationState
from returns.timeline import refusals_are_recorded


@dataclass(frozen=True)
class UnitFound:
    """What was found about one unit of a line."""

    line: str
    unit: int
    condition: str = ""
    restock: bool = False


@refusals_are_recorded("inspect")
@database_work_is_retried
def inspect(
    *,
    operation_key: UUID,
    by: User,
    accepted: Sequence[UnitFound],
    rejected: Sequence[UnitFound],
    note: str = "",
    seen_version: int | None = None,
) -> RefundOperation:
    """Record the findings about every unit; rejected units are freed.

    The same findings again change nothing. Raises WrongState, Stale, and Invalid when a unit of
    the return is missing from the findings or named twice.
    """
    require(by, "inspect")
    digest = _digest(accepted, rejected, note)
    with transaction.atomic():
        _, operation = locking.lock_operation(key=operation_key)
        if Inspection.objects.filter(operation=operation, findings_digest=digest).exists():
            return operation
        if operation.state != OperationState.RECEIVED:
            raise WrongState(
                f"{operation.reference} is {operation.state}; only a received return is inspected.",
                state=operation.state,
            )
        refuse_stale(operation, seen_version)
        claims = _claims_by_unit(operation, accepted, rejected)
        _record(operation, claims, accepted, rejected, by, note, digest)
        operation.inspect()
        operation.save_change()
        refused = [claims[found.line, found.unit].pk for found in rejected]
        Claim.objects.filter(pk__in=refused).update(live=False)
        timeline.write(
            operation,
            "inspect",
            by=by,
            from_state=OperationState.RECEIVED,
            to_state=operation.state,
            note=note,
            accepted=len(accepted),
            rejected=len(rejected),
        )
    return operation


def _digest(accepted: Sequence[UnitFound], rejected: Sequence[UnitFound], note: str) -> str:
    def ordered(found: Sequence[UnitFound]) -> list[str]:
        return sorted(json.dumps(asdict(unit), sort_keys=True) for unit in found)

    text = json.dumps([ordered(accepted), ordered(rejected), note])
    return hashlib.sha256(text.encode()).hexdigest()


def _claims_by_unit(
    operation: RefundOperation, accepted: Sequence[UnitFound], rejected: Sequence[UnitFound]
) -> dict[tuple[str, int], Claim]:
    """The operation's goods by (line, unit), after making sure each is judged exactly once."""
    goods = operation.claims.filter(kind=Claim.Kind.LINE, live=True).select_related("line")
    claims = {(c.line.line_id, c.unit): c for c in goods if c.line and c.unit}
    judged = [(found.line, found.unit) for found in (*accepted, *rejected)]
    complaints = [
        f"{line} unit {unit} is not part of this return."
        for line, unit in judged
        if (line, unit) not in claims
    ]
    complaints += [
        f"{line} unit {unit} is not judged." for line, unit in claims if (line, unit) not in judged
    ]
    if len(set(judged)) != len(judged):
        complaints.append("A unit is judged more than once.")
    if complaints:
        raise Invalid({"accepted": complaints})
    return claims


def _record(
    operation: RefundOperation,
    claims: dict[tuple[str, int], Claim],
    accepted: Sequence[UnitFound],
    rejected: Sequence[UnitFound],
    by: User,
    note: str,
    digest: str,
) -> None:
    inspection = Inspection.objects.create(
        operation=operation,
        inspected_by=by,
        note=note,
        findings_digest=digest,
        inspected_at=timezone.now(),
    )
    Finding.objects.bulk_create(
        Finding(
            inspection=inspection,
            claim=claims[found.line, found.unit],
            accepted=good,
            condition=found.condition,
            restock=found.restock,
        )
        for group, good in ((accepted, True), (rejected, False))
        for found in group
    )
