"""Reserve money for payments, and give it back. Both under the lock on the order's balance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Case, F, Value, When
from django.utils import timezone
from django_q.tasks import async_task

from payments.models import PaymentTask
from returns import timeline
from returns.identity import wire_key
from returns.models import OperationEvent, OrderBalance, RefundOperation, Tender, TenderBalance
from returns.states import OperationState, TaskState

# The queue takes a fresh task at once; the sweep looks after it only when the queue has not.
QUEUE_GETS_SECONDS = 10


@dataclass(frozen=True)
class Part:
    """How much of a refund one tender pays back, minor units."""

    tender: Tender
    amount_minor: int


def reserve(
    operation: RefundOperation,
    balance: OrderBalance,
    parts: Sequence[Part],
    by: User,
    *earlier_events: OperationEvent,
) -> None:
    """Hold the money and record the intention to pay it; the caller holds both locks.

    Balance, payment tasks and queue message are written in the caller's transaction: all or none.
    """
    amount_minor = sum(part.amount_minor for part in parts)
    operation.pay_rounds += 1
    operation.reserve()
    operation.save_change("pay_rounds")
    shift(balance, parts, reserved=1)
    now = timezone.now()
    PaymentTask.objects.bulk_create(
        PaymentTask(
            operation=operation,
            tender=part.tender,
            generation=operation.pay_rounds,
            wire_key=wire_key(operation.operation_key, part.tender.tender_id, operation.pay_rounds),
            provider=part.tender.provider,
            amount_minor=part.amount_minor,
            currency=operation.currency,
            state=TaskState.PENDING,
            next_look_at=now + timedelta(seconds=QUEUE_GETS_SECONDS),
            created_at=now,
        )
        for part in parts
    )
    reserved = timeline.entry(
        operation,
        "reserve",
        by=by,
        from_state=OperationState.APPROVED,
        to_state=operation.state,
        amount_minor=amount_minor,
        tenders={part.tender.tender_id: part.amount_minor for part in parts},
    )
    OperationEvent.objects.bulk_create([*earlier_events, reserved])
    async_task("payments.tasks.pay_operation", operation.pk, cluster=settings.MONEY_QUEUE)


def shift(
    balance: OrderBalance, parts: Sequence[Part], *, reserved: int = 0, refunded: int = 0
) -> None:
    """Move the parts between the columns of the order's and the tenders' balances.

    `reserved` and `refunded` are +1, 0 or -1. The CHECK constraints refuse what does not fit.
    """
    total = sum(part.amount_minor for part in parts)
    OrderBalance.objects.filter(pk=balance.pk).update(
        reserved_minor=F("reserved_minor") + reserved * total,
        refunded_minor=F("refunded_minor") + refunded * total,
    )
    share = Case(*(When(tender=part.tender, then=Value(part.amount_minor)) for part in parts))
    TenderBalance.objects.filter(tender__in=[part.tender for part in parts]).update(
        reserved_minor=F("reserved_minor") + reserved * share,
        refunded_minor=F("refunded_minor") + refunded * share,
    )
