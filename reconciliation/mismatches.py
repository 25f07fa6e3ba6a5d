"""The queue of what a person must close: opened from facts, closed when they have become right."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from payments.capabilities import BY_PROVIDER
from payments.models import OutboundRow, PaymentTask, ProviderEvent
from reconciliation.models import ErpPosting, Mismatch
from returns.models import ExternalRefund
from returns.states import OperationState, TaskState

# A doubt that the look-ups have not cleared in this time needs a person as well.
DOUBT_BEFORE_A_PERSON = timedelta(hours=1)

# A sweep looks back this far for refunds that were not made here; each opens one item.
NEWS_FOR = timedelta(days=7)
# A person's own payment that waits longer than this has been forgotten.
HAND_OVER_BEFORE_ASKING = timedelta(days=3)

Kind = Mismatch.Kind

# The words the protocol leaves on a row, and the kind of mismatch each becomes.
KIND_OF_PAYMENT_WORD: dict[str, Kind] = {
    "amount_differs": Kind.AMOUNT_DIFFERS,
    "currency_differs": Kind.CURRENCY_DIFFERS,
    "more_than_one_payment": Kind.MORE_THAN_ONE_PAYMENT,
    "paid_after_refusal": Kind.PAYMENT_WITHOUT_OPERATION,
    "returned_after_success": Kind.RETURNED_AFTER_SUCCESS,
    "reference_not_ours": Kind.REFERENCE_DAMAGED,
    "refunded_elsewhere": Kind.PAYMENT_WITHOUT_OPERATION,
    "charged_back": Kind.CHARGEBACK_BESIDE_REFUND,
}
KIND_OF_CREDIT_WORD: dict[str, Kind] = {
    "amount_differs": Kind.CREDIT_AMOUNT_DIFFERS,
    "currency_differs": Kind.CURRENCY_DIFFERS,
    "more_than_one_credit": Kind.MORE_THAN_ONE_CREDIT,
    "refused": Kind.ERP_REFUSED,
}


def open_new() -> int:
    """Open a mismatch for every row that needs a person and has none; returns how many are new.

    While an item is open, the same kind of trouble with the same row is that item.
    """
    now = timezone.now()
    wanted = [*_about_payments(), *_about_postings(), *_about_events(), *_about_external()]
    fingerprints = [mismatch.fingerprint for mismatch in wanted]
    known = set(
        Mismatch.objects.filter(fingerprint__in=fingerprints).values_list("fingerprint", flat=True)
    )
    still_open = Mismatch.objects.filter(status=Mismatch.Status.OPEN)
    open_items = set(still_open.values_list("kind", "payment_id", "posting_id", "event_id"))
    new = [m for m in wanted if m.fingerprint not in known and not _is_one_of(m, open_items)]
    for mismatch in new:
        mismatch.opened_at = now
    Mismatch.objects.bulk_create(new, ignore_conflicts=True)
    return len(new)


def close_righted() -> int:
    """Close what has become right by itself, and say so; returns how many."""
    settled = Q(payment__state__in=[TaskState.SUCCEEDED, TaskState.DECLINED], payment__attention="")
    repaid = Q(
        kind=Kind.RETURNED_AFTER_SUCCESS,
        operation__state__in=[OperationState.PAID, OperationState.POSTED],
    )
    credited = Q(posting__state=TaskState.SUCCEEDED)
    applied = Q(event__standing=ProviderEvent.Standing.APPLIED)
    return Mismatch.objects.filter(
        Q(status=Mismatch.Status.OPEN) & (settled | repaid | credited | applied)
    ).update(
        status=Mismatch.Status.RESOLVED,
        resolution=Mismatch.Resolution.RIGHTED,
        reason="A later look found everything in order.",
        resolved_at=timezone.now(),
    )


def _is_one_of(mismatch: Mismatch, items: set[tuple[Any, ...]]) -> bool:
    """Whether the same kind of trouble with the same row is open already."""
    rows = (mismatch.payment_id, mismatch.posting_id, mismatch.event_id)
    return any(rows) and (mismatch.kind, *rows) in items


def _times(row: OutboundRow) -> str:
    """A row set aside a second time is a second item; the same doubt stays the same one."""
    return f":{row.lease}" if row.state == TaskState.STUCK else ""


def _about_payments() -> Iterator[Mismatch]:
    long_ago = timezone.now() - DOUBT_BEFORE_A_PERSON
    in_doubt = Q(state=TaskState.UNKNOWN, first_sent_at__lt=long_ago)
    by_hand = Q(
        state=TaskState.SENDING, lease_until__lt=timezone.now(), handed_over_by__isnull=False
    )
    forgotten = Q(
        state=TaskState.PENDING,
        provider__in=[name for name, promise in BY_PROVIDER.items() if promise.by_person],
        created_at__lt=timezone.now() - HAND_OVER_BEFORE_ASKING,
    )
    rows = PaymentTask.objects.filter(
        ~Q(attention="") | Q(state=TaskState.STUCK) | in_doubt | by_hand | forgotten
    ).select_related("operation")
    for task in rows:
        word = task.attention or task.state
        yield Mismatch(
            fingerprint=f"payment:{task.pk}:{word}{_times(task)}",
            kind=KIND_OF_PAYMENT_WORD.get(word, Kind.STUCK_PAYMENT),
            operation=task.operation,
            payment=task,
            at_stake_minor=task.amount_minor,
            currency=task.currency,
            detail=f"{word}: {task.last_answer}",
        )


def _about_postings() -> Iterator[Mismatch]:
    long_ago = timezone.now() - DOUBT_BEFORE_A_PERSON
    unwritten = Q(state__in=[TaskState.UNKNOWN, TaskState.ACCEPTED], first_sent_at__lt=long_ago)
    rows = ErpPosting.objects.filter(~Q(attention="") | Q(state=TaskState.STUCK) | unwritten)
    for posting in rows.select_related("operation"):
        word = posting.attention or posting.state
        yield Mismatch(
            fingerprint=f"posting:{posting.pk}:{word}{_times(posting)}",
            kind=KIND_OF_CREDIT_WORD.get(word, Kind.CREDIT_MISSING),
            operation=posting.operation,
            posting=posting,
            at_stake_minor=posting.amount_minor,
            currency=posting.currency,
            detail=f"{word}: {posting.last_answer}",
        )


def _about_events() -> Iterator[Mismatch]:
    for event in ProviderEvent.objects.filter(standing=ProviderEvent.Standing.NOT_UNDERSTOOD):
        yield Mismatch(
            fingerprint=f"event:{event.pk}",
            kind=Kind.EVENT_NOT_UNDERSTOOD,
            event=event,
            detail=f"{event.kind}: {event.note}",
        )


def _about_external() -> Iterator[Mismatch]:
    recent = ExternalRefund.objects.filter(
        source=ExternalRefund.Source.PROVIDER, recorded_at__gt=timezone.now() - NEWS_FOR
    )
    for refund in recent.select_related("tender__order"):
        order = refund.tender.order
        yield Mismatch(
            fingerprint=f"external:{refund.pk}",
            kind=Kind.PAYMENT_WITHOUT_OPERATION,
            at_stake_minor=refund.amount_minor,
            currency=order.currency,
            detail=f"{refund.reference} on order {order.number} was not made here",
        )
