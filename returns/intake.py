"""Open or join a return: the same goods are the same operation, whoever brings them how.

Nobody waits for a lock here. Two first requests race to the unique indexes; one INSERT wins, the
other is refused by the database, reads again and joins.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from returns import identity, locking, money, timeline
from returns.claiming import Wanted, conflict, free_units, live_claims, wanted_claims
from returns.errors import (
    InsufficientBalance,
    MessageChanged,
    Missing,
    NothingRefundable,
    RefundDeskError,
    UnitsClaimed,
)
from returns.masking import mask_cards
from returns.models import Channel, Claim, IntakeMessage, Order, RefundOperation
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.return_request import ReturnRequest, refuse_nonsense
from returns.states import OperationState
from returns.timeline import refusals_are_recorded

# Each lost race means that somebody else's row is there now; with "additional" units every
# loser picks the next free one, so the bound is the number of people who can press at once.
RACES_BEFORE_GIVING_UP = 50
_UNIQUE_VIOLATION = "23505"


@dataclass(frozen=True)
class Taken:
    """The answer to a message: the operation, and whether the message opened or joined it."""

    operation: RefundOperation
    message: IntakeMessage
    replayed: bool = False

    @property
    def joined(self) -> bool:
        return self.message.joined

    @property
    def created(self) -> bool:
        return not (self.joined or self.replayed)


class _OrderJustChanged(Exception):
    """The order changed between reading it and claiming its units; read again."""


def open_or_join(*, request: ReturnRequest, by: User) -> Taken:
    """Take a request in: open an operation, join the one for exactly these goods, or refuse.

    Raises Invalid, Missing (unknown_order), UnitsClaimed when the goods overlap another operation
    without being the same, NothingRefundable, InsufficientBalance, MessageChanged. The same
    message delivered again gets the first answer.
    """
    kept = replace(
        request,
        reason=mask_cards(request.reason),
        customer_text=mask_cards(request.customer_text),
    )
    return _take_in(number=kept.order, request=kept, by=by)


@refusals_are_recorded("take_in")
@database_work_is_retried
def _take_in(*, number: str, request: ReturnRequest, by: User) -> Taken:
    require(by, "take_in")
    refuse_nonsense(request, Channel.values)
    for _ in range(RACES_BEFORE_GIVING_UP):
        try:
            with transaction.atomic():
                return _replay(request) or _open_or_join(number, request, by)
        except _OrderJustChanged:
            continue
        except IntegrityError as error:
            if getattr(error.__cause__, "sqlstate", "") != _UNIQUE_VIOLATION:
                raise
    raise RefundDeskError(
        "Too many requests for these goods at once. Send the same message again.", code="busy"
    )


def _replay(request: ReturnRequest) -> Taken | None:
    earlier = (
        IntakeMessage.objects.select_related("operation__order")
        .filter(channel=request.channel, message_id=request.message_id)
        .first()
    )
    if earlier is None:
        return None
    if earlier.request_digest != request.digest:
        raise MessageChanged(
            "This message id was used before with other content. Give the new message its own id.",
            operation=str(earlier.operation.operation_key),
            reference=earlier.operation.reference,
        )
    return Taken(earlier.operation, earlier, replayed=True)


def _open_or_join(number: str, request: ReturnRequest, by: User) -> Taken:
    order = _order(number)
    live = live_claims(order)
    wanted = wanted_claims(order, request, live)
    operation = _same_goods(order, wanted, live)
    joined = operation is not None
    if operation is None:
        _refuse_unrefundable(order, wanted)
        operation = _open(order, wanted, request, by)
    message = IntakeMessage.objects.create(
        channel=request.channel,
        message_id=request.message_id,
        operation=operation,
        submitted_by=by,
        request=asdict(request),
        request_digest=request.digest,
        reason=request.reason,
        customer_text=request.customer_text,
        joined=joined,
        received_at=timezone.now(),
    )
    if joined:
        timeline.write(operation, "join", by=by, note=request.reason, channel=request.channel)
    return Taken(operation, message)


def _order(number: str) -> Order:
    order = (
        Order.objects.select_related("balance")
        .prefetch_related("lines")
        .filter(number__iexact=number)
        .first()
    )
    if order is None:
        raise Missing(f"There is no order {number}.", code="unknown_order", order=number)
    return order


def _same_goods(order: Order, wanted: Wanted, live: dict[str, Claim]) -> RefundOperation | None:
    """The live operation for exactly these goods, or None when all of them are free.

    Raises UnitsClaimed for every overlap that is not equality: a person decides.
    """
    holders = [live[subject] for subject in sorted(wanted.subjects) if subject in live]
    if not holders:
        return None
    operation = holders[0].operation
    one_holder = all(claim.operation_id == operation.pk for claim in holders)
    still_live = {s for s, claim in live.items() if claim.operation_id == operation.pk}
    same = identity.subject_set(wanted.subjects) == operation.subject_set
    same_amounts = all(c.amount_minor == wanted.claims[c.subject].amount_minor for c in holders)
    if one_holder and same_amounts and (same or wanted.subjects == still_live):
        return operation
    raise UnitsClaimed(
        "Another return already covers part of this. Open it, or say which other units are meant.",
        conflicts=[conflict(claim) for claim in holders],
        free_units={line.line_id: free_units(line, live) for line in order.lines.all()},
    )


def _refuse_unrefundable(order: Order, wanted: Wanted) -> None:
    if not order.delivered:
        raise NothingRefundable(
            f"Order {order.number} has not been delivered, so nothing of it can come back yet.",
            reason="not_delivered",
        )
    remaining_minor = order.balance.remaining_minor
    remaining = money.plain(remaining_minor, order.currency)
    if remaining_minor == 0:
        raise NothingRefundable(
            f"Everything paid for order {order.number} has been refunded or is on its way.",
            reason="already_refunded",
            remaining=remaining,
            currency=order.currency,
        )
    goodwill = [c for c in wanted.claims.values() if c.kind == Claim.Kind.GOODWILL]
    if sum(claim.amount_minor for claim in goodwill) > remaining_minor:
        raise InsufficientBalance(
            f"Only {order.currency} {remaining} of order {order.number} is left.",
            remaining=remaining,
            currency=order.currency,
        )


def _open(order: Order, wanted: Wanted, request: ReturnRequest, by: User) -> RefundOperation:
    subjects = identity.subject_set(wanted.subjects)
    # No live claim covers these subjects, so every earlier operation over exactly them has ended.
    generation = RefundOperation.objects.filter(order=order, subject_set=subjects).count()
    now = timezone.now()
    operation = RefundOperation.objects.create(
        order=order,
        operation_key=identity.operation_key(order.number, subjects, generation),
        subject_set=subjects,
        generation=generation,
        currency=order.currency,
        state_changed_at=now,
        taken_in_by=by,
        taken_in_channel=request.channel,
        taken_in_at=now,
    )
    for claim in wanted.claims.values():
        claim.operation = operation
    # In one canonical order, so that two overlapping requests cannot wait for each other.
    Claim.objects.bulk_create([wanted.claims[s] for s in sorted(wanted.subjects)])
    _refuse_changed_facts(order)
    timeline.write(
        operation,
        "take_in",
        by=by,
        to_state=OperationState.RECEIVED,
        note=request.reason,
        channel=request.channel,
    )
    return operation


def _refuse_changed_facts(order: Order) -> None:
    """From now on our rows keep the order from changing; make sure it had not just changed."""
    locking.hold_parents()
    if not Order.objects.filter(pk=order.pk, facts_version=order.facts_version).exists():
        raise _OrderJustChanged
