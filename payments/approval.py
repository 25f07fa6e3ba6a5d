"""Approve a refund and reserve its money, in one transaction under the lock on the balance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from payments.limits import Limits, limits_of
from payments.models import Approval
from payments.reservation import Part, reserve
from returns import locking, money, timeline
from returns.closing import refuse_own_work, refuse_stale
from returns.destinations import first_fit
from returns.errors import InsufficientBalance, Invalid, NotAllowed, Stale, WrongState
from returns.models import Claim, OrderBalance, RefundOperation, Tender
from returns.next_steps import MAY_HAVE_THE_MONEY
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.states import OperationState
from returns.timeline import refusals_are_recorded

_DECIDABLE = (OperationState.INSPECTED, OperationState.APPROVED)
_AGREED = (OperationState.RESERVED, OperationState.PAID, OperationState.POSTED)


@dataclass(frozen=True)
class Seen:
    """What the person saw when deciding; None where they did not say."""

    version: int | None = None
    remaining_minor: int | None = None


@refusals_are_recorded("approve")
@database_work_is_retried
def approve(
    *,
    operation_key: UUID,
    by: User,
    amount_minor: int,
    tenders: Mapping[str, int] | None = None,
    note: str = "",
    seen: Seen | None = None,
) -> RefundOperation:
    """Say yes to paying `amount_minor` (minor units), on the given tenders or the first that fit.

    Reserves the money and records the payment tasks in the same transaction, unless a second
    person's approval is still needed; then the operation is `approved` and nothing is reserved.
    The same approval again changes nothing. Raises NotAllowed (role, own_intake, over_limit),
    WrongState, Stale, Invalid, InsufficientBalance; after a refusal nothing has changed.
    """
    require(by, "approve")
    if amount_minor <= 0:
        raise Invalid({"amount": "The amount must be above zero."})
    seen = seen or Seen()
    with transaction.atomic():
        balance, operation = locking.lock_operation(key=operation_key)
        refuse_own_work(operation, by)
        if _said_before(operation, by, amount_minor, tenders):
            return operation
        _refuse_wrong_state(operation)
        _refuse_contradicted(operation)
        refuse_stale(operation, seen.version)
        _refuse_changed_balance(balance, operation, seen.remaining_minor)
        limits = _limits(operation, amount_minor)
        claims = list(operation.claims.filter(live=True).order_by("subject"))
        _refuse_wrong_amount(operation, balance, claims, amount_minor)
        parts = _split(operation, amount_minor, tenders)
        approval = _record(operation, claims, parts, amount_minor, by, note)
        agreed = _people_agreed(approval, limits, amount_minor)
        _carry_out(operation, balance, parts, by, note, reserve_now=agreed)
    return operation


def _said_before(
    operation: RefundOperation, by: User, amount_minor: int, tenders: Mapping[str, int] | None
) -> bool:
    """Whether this approval has already had its effect."""
    if operation.state in _AGREED:
        said = operation.approvals.filter(generation=operation.pay_rounds).order_by("-id").first()
    elif operation.state == OperationState.APPROVED:
        said = _latest(operation, approved_by=by)
    else:
        return False
    if said is None or said.amount_minor != amount_minor:
        return False
    if tenders is not None:
        names = dict(Tender.objects.filter(order=operation.order_id).values_list("pk", "tender_id"))
        return {names[pk]: minor for pk, minor in said.split} == dict(tenders)
    return operation.state in _AGREED or said.split == _pairs(_split(operation, amount_minor, None))


def _latest(operation: RefundOperation, **mine: User) -> Approval | None:
    """The newest approval of the coming round of paying."""
    coming = operation.approvals.filter(generation=operation.pay_rounds + 1, **mine)
    return coming.order_by("-id").first()


def _refuse_contradicted(operation: RefundOperation) -> None:
    """Nothing is paid again where the customer may have the money already."""
    if operation.pay_rounds == 0:
        return
    if operation.payments.filter(attention__in=MAY_HAVE_THE_MONEY).exists():
        raise WrongState(
            "The customer may have the money of this already. Finance must look at it first.",
            state=operation.state,
        )


def _refuse_wrong_state(operation: RefundOperation) -> None:
    if operation.state not in _DECIDABLE:
        raise WrongState(
            f"{operation.reference} is {operation.state}; only an inspected return is approved.",
            state=operation.state,
        )


def _refuse_changed_balance(
    balance: OrderBalance, operation: RefundOperation, seen_minor: int | None
) -> None:
    if seen_minor is None or seen_minor == balance.remaining_minor:
        return
    raise Stale(
        "The order's balance has changed since you opened this page.",
        remaining=money.plain(balance.remaining_minor, operation.currency),
        seen=money.plain(seen_minor, operation.currency),
        currency=operation.currency,
    )


def _limits(operation: RefundOperation, amount_minor: int) -> Limits:
    limits = limits_of(operation.currency, settings.APPROVAL_LIMITS)
    if amount_minor > limits.most_minor:
        most = money.plain(limits.most_minor, operation.currency)
        raise NotAllowed(
            f"Managers may approve up to {operation.currency} {most}.",
            code="over_limit",
            limit=most,
            currency=operation.currency,
        )
    return limits


def _refuse_wrong_amount(
    operation: RefundOperation, balance: OrderBalance, claims: list[Claim], amount_minor: int
) -> None:
    if amount_minor > balance.remaining_minor:
        raise _insufficient(balance.remaining_minor, operation)
    if operation.amount_minor is not None:
        if amount_minor != operation.outstanding_minor:
            owed = money.plain(operation.outstanding_minor, operation.currency)
            raise Invalid({"amount": f"{owed} of this return is approved and still owed."})
        return
    worth_minor = sum(claim.amount_minor for claim in claims)
    if amount_minor > worth_minor:
        worth = money.plain(worth_minor, operation.currency)
        raise Invalid({"amount": f"What came back is worth {worth}, as it was sold."})


def _insufficient(remaining_minor: int, operation: RefundOperation) -> InsufficientBalance:
    remaining = money.plain(remaining_minor, operation.currency)
    return InsufficientBalance(
        f"Only {operation.currency} {remaining} of this order is left to refund.",
        remaining=remaining,
        currency=operation.currency,
    )


def _split(
    operation: RefundOperation, amount_minor: int, wanted: Mapping[str, int] | None
) -> list[Part]:
    """Which tender pays how much, never more than it has left."""
    tenders = list(operation.order.tenders.select_related("balance").order_by("pk"))
    if wanted is None:
        agreed = _standing_split(operation, tenders, amount_minor)
        if agreed:
            return agreed
        fitted = first_fit(amount_minor, [t.balance.remaining_minor for t in tenders])
        return [Part(tender, part) for tender, part in zip(tenders, fitted, strict=True) if part]
    by_name = {tender.tender_id: tender for tender in tenders}
    unknown = [name for name in wanted if name not in by_name]
    if unknown or any(minor <= 0 for minor in wanted.values()):
        raise Invalid({"tenders": "Name tenders of this order with amounts above zero."})
    if sum(wanted.values()) != amount_minor:
        raise Invalid({"tenders": "The parts do not add up to the amount."})
    for name, minor in wanted.items():
        remaining_minor = by_name[name].balance.remaining_minor
        if minor > remaining_minor:
            raise _insufficient(remaining_minor, operation)
    return [Part(by_name[name], minor) for name, minor in wanted.items()]


def _standing_split(
    operation: RefundOperation, tenders: list[Tender], amount_minor: int
) -> list[Part]:
    """What the first of two people agreed to, as long as every tender still has its part left."""
    if operation.state != OperationState.APPROVED:
        return []
    standing = _latest(operation)
    if standing is None or standing.amount_minor != amount_minor:
        return []
    by_pk = {tender.pk: tender for tender in tenders}
    parts = [Part(by_pk[pk], minor) for pk, minor in standing.split]
    fits = all(part.amount_minor <= part.tender.balance.remaining_minor for part in parts)
    return parts if fits else []


def _pairs(parts: list[Part]) -> list[list[int]]:
    """The split as an approval stores it."""
    return [[part.tender.pk, part.amount_minor] for part in parts]


def _record(
    operation: RefundOperation,
    claims: list[Claim],
    parts: list[Part],
    amount_minor: int,
    by: User,
    note: str,
) -> Approval:
    split = _pairs(parts)
    return Approval.objects.create(
        operation=operation,
        generation=operation.pay_rounds + 1,
        approved_by=by,
        amount_minor=amount_minor,
        currency=operation.currency,
        split=split,
        digest=_digest(operation, claims, split, amount_minor),
        note=note,
        approved_at=timezone.now(),
    )


def _digest(
    operation: RefundOperation, claims: list[Claim], split: list[list[int]], amount_minor: int
) -> str:
    """Amount, currency, destination and lines in one figure: a yes to anything else is no yes."""
    bound = [
        str(operation.operation_key),
        amount_minor,
        operation.currency,
        split,
        [[claim.subject, claim.amount_minor] for claim in claims],
    ]
    return hashlib.sha256(json.dumps(bound).encode()).hexdigest()


def _people_agreed(approval: Approval, limits: Limits, amount_minor: int) -> bool:
    """Whether enough different people stand by exactly this, none of whom took part in it.

    Only each person's latest word of the round counts.
    """
    needed = limits.approvals_needed(amount_minor)
    if needed == 1:
        return True
    operation = approval.operation
    words = operation.approvals.filter(generation=approval.generation).order_by("id")
    latest = dict(words.values_list("approved_by", "digest"))
    took_part = set(operation.messages.values_list("submitted_by", flat=True))
    agreed = {who for who, digest in latest.items() if digest == approval.digest}
    return len(agreed - took_part) >= needed


def _carry_out(
    operation: RefundOperation,
    balance: OrderBalance,
    parts: list[Part],
    by: User,
    note: str,
    *,
    reserve_now: bool,
) -> None:
    before, first = operation.state, operation.state == OperationState.INSPECTED
    if first:
        operation.amount_minor = sum(part.amount_minor for part in parts)
        operation.approve()
        operation.save_change("amount_minor")
    else:
        operation.save_change()
    approved = timeline.entry(
        operation,
        "approve",
        by=by,
        from_state=before,
        to_state=operation.state,
        note=note,
        amount_minor=sum(part.amount_minor for part in parts),
        second_approval_needed=not reserve_now,
    )
    if reserve_now:
        reserve(operation, balance, parts, by, approved)
    else:
        approved.save(force_insert=True)
