"""Post confirmed refunds to the books: record the intention, and what the ERP made of it."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from django_q.tasks import async_task

from payments import outbound
from payments.outbound import Claim
from payments.outcomes import Capabilities, Outcome, Settled
from payments.protocol import Verdict
from reconciliation.models import ErpPosting, PostingAttempt
from returns import locking, timeline
from returns.models import RefundOperation
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.states import OperationState, TaskState

# One pass opens at most this many; the next pass takes the rest.
MOST_A_PASS = 500
# The queue takes a fresh posting at once; the sweep looks after it when the queue has not.
QUEUE_GETS = timedelta(seconds=10)


@database_work_is_retried
def open_postings() -> int:
    """Record the intention to post for every paid operation that has none; returns how many.

    Postings and their queue message are written in one transaction.
    """
    with transaction.atomic():
        paid = (
            RefundOperation.objects.filter(state=OperationState.PAID, posting__isnull=True)
            .annotate(paid_at=Max("payments__finished_at"))
            .order_by("pk")[:MOST_A_PASS]
        )
        opened = ErpPosting.objects.bulk_create(
            [_posting(operation) for operation in paid], ignore_conflicts=True
        )
        if opened:
            keys = [posting.operation_id for posting in opened]
            async_task("reconciliation.tasks.post_operations", keys, cluster=settings.BOOKS_QUEUE)
    return len(opened)


def post_paid_again() -> int:
    """Operations paid again after their money came back: the credit stands; returns how many."""
    again = RefundOperation.objects.filter(
        state=OperationState.PAID, posting__state=TaskState.SUCCEEDED
    )
    keys = list(again.values_list("pk", flat=True)[:MOST_A_PASS])
    for pk in keys:
        _post_paid_again(pk)
    return len(keys)


@database_work_is_retried
def _post_paid_again(operation_id: int) -> None:
    with transaction.atomic():
        _, operation = locking.lock_operation(pk=operation_id)
        if operation.state == OperationState.PAID:
            _post(operation, operation.posting)


@database_work_is_retried
def record(*, posting_id: int, claim: Claim, outcome: Outcome, capabilities: Capabilities) -> bool:
    """Write what a call to the ERP ended in; a posted credit makes the operation `posted`.

    Returns False, having written nothing, when the worker's lease was taken in the meantime.
    """
    with transaction.atomic():
        operation, posting = _lock(posting_id)
        if not outbound.holds(posting, claim):
            return False
        judgement = outbound.record(posting, PostingAttempt, claim, outcome, capabilities)
        if judgement.verdict is Verdict.SUCCEED and isinstance(outcome, Settled):
            _credited(operation, posting, outcome, capabilities)
        elif judgement.verdict is Verdict.PARK:
            timeline.write(operation, "erp_refused", by=None, answer=posting.last_answer)
    return True


@database_work_is_retried
def try_again(*, posting_id: int, by: User) -> ErpPosting:
    """A person has mended the cause: look at the posting again. Raises NotAllowed (role)."""
    require(by, "resolve_mismatch")
    with transaction.atomic():
        operation, posting = _lock(posting_id)
        if posting.state == TaskState.STUCK:
            outbound.look_now(posting, timezone.now())
            timeline.write(operation, "post_again", by=by)
    return posting


def _lock(posting_id: int) -> tuple[RefundOperation, ErpPosting]:
    operation_id = ErpPosting.objects.values_list("operation_id", flat=True).get(pk=posting_id)
    _, operation = locking.lock_operation(pk=operation_id)
    return operation, locking.lock_rows(ErpPosting.objects.filter(pk=posting_id))[0]


def _posting(operation: RefundOperation) -> ErpPosting:
    now = timezone.now()
    paid_at = getattr(operation, "paid_at", None) or now
    return ErpPosting(
        operation=operation,
        amount_minor=operation.refunded_minor,
        currency=operation.currency,
        refunded_on=paid_at.astimezone(ZoneInfo(settings.STORE_TIME_ZONE)).date(),
        state=TaskState.PENDING,
        next_look_at=now + QUEUE_GETS,
        created_at=now,
    )


def _credited(
    operation: RefundOperation, posting: ErpPosting, outcome: Settled, capabilities: Capabilities
) -> None:
    posting.entry = outcome.reference
    if posting.in_doubt and posting.last_send_ends_at is not None:
        under_way = timedelta(seconds=capabilities.max_under_way_seconds)
        posting.tidy_at = posting.last_send_ends_at + under_way
    posting.save(update_fields=["entry", "tidy_at"])
    if operation.state == OperationState.PAID:
        _post(operation, posting)


def _post(operation: RefundOperation, posting: ErpPosting) -> None:
    operation.post()
    operation.save_change()
    timeline.write(
        operation,
        "post",
        by=None,
        from_state=OperationState.PAID,
        to_state=operation.state,
        erp_entry=posting.entry,
        amount_minor=posting.amount_minor,
    )
