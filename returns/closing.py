"""End a return without paying: a manager rejects it, or the customer withdraws it."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from returns import locking, timeline
from returns.errors import Invalid, NotAllowed, Stale, WrongState
from returns.models import Claim, OperationEvent, RefundOperation
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.states import OPEN, OperationState
from returns.timeline import refusals_are_recorded


@refusals_are_recorded("reject")
@database_work_is_retried
def reject(
    *, operation_key: UUID, by: User, reason: str, seen_version: int | None = None
) -> RefundOperation:
    """A manager says no; the claims are freed. Needs a reason.

    The same rejection again changes nothing. Raises NotAllowed (role, own_intake), WrongState,
    Stale, Invalid.
    """
    require(by, "reject")
    if not reason.strip():
        raise Invalid({"reason": "Say why, so that the customer can be told."})
    with transaction.atomic():
        _, operation = locking.lock_operation(key=operation_key)
        if _already(operation, OperationState.REJECTED, reason):
            return operation
        refuse_own_work(operation, by)
        _refuse_unless_open(operation)
        refuse_stale(operation, seen_version)
        before = operation.state
        operation.reject()
        _end(operation, "reject", before, by, reason)
    return operation


@refusals_are_recorded("withdraw")
@database_work_is_retried
def withdraw(
    *, operation_key: UUID, by: User, reason: str = "", seen_version: int | None = None
) -> RefundOperation:
    """The customer changed their mind; the claims are freed.

    The same withdrawal again changes nothing. Raises NotAllowed (role), WrongState, Stale.
    """
    require(by, "withdraw")
    with transaction.atomic():
        _, operation = locking.lock_operation(key=operation_key)
        if _already(operation, OperationState.CANCELLED, reason):
            return operation
        _refuse_unless_open(operation)
        refuse_stale(operation, seen_version)
        before = operation.state
        operation.withdraw()
        _end(operation, "withdraw", before, by, reason)
    return operation


def refuse_stale(operation: RefundOperation, seen_version: int | None) -> None:
    """Raises Stale when the person decided on another version than the present one."""
    if seen_version is None or seen_version == operation.version:
        return
    last = operation.events.select_related("by").order_by("-id").first()
    who = last.by.get_username() if last and last.by else "a worker"
    raise Stale(
        f"{operation.reference} was changed by {who} since you opened it. Look at it again.",
        version=operation.version,
        state=operation.state,
        changed_by=who,
        changed_at=last.at.isoformat() if last else None,
        change=last.verb if last else "",
    )


def refuse_own_work(operation: RefundOperation, by: User) -> None:
    """Raises NotAllowed (own_intake) for whoever took the goods in, joined or inspected."""
    mine = RefundOperation.objects.filter(pk=operation.pk).filter(
        Q(taken_in_by=by) | Q(messages__submitted_by=by) | Q(inspection__inspected_by=by)
    )
    if mine.exists():
        raise NotAllowed(
            "You took this return in or inspected it, so somebody else must decide.",
            code="own_intake",
        )


def _already(operation: RefundOperation, state: str, reason: str) -> bool:
    if operation.state != state:
        return False
    last = OperationEvent.objects.filter(operation=operation, to_state=state).latest("id")
    return last.note == reason


def _refuse_unless_open(operation: RefundOperation) -> None:
    if operation.state not in OPEN:
        raise WrongState(
            f"{operation.reference} is {operation.state}; it can no longer be closed unpaid.",
            state=operation.state,
        )
    if operation.refunded_minor:
        raise WrongState(
            f"Part of {operation.reference} has been paid; the rest is still owed.",
            state=operation.state,
        )


def _end(operation: RefundOperation, verb: str, before: str, by: User, reason: str) -> None:
    operation.save_change()
    Claim.objects.filter(operation=operation, live=True).update(live=False)
    timeline.write(operation, verb, by=by, from_state=before, to_state=operation.state, note=reason)
