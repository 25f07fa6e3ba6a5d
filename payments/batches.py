"""Approve many returns at once: a batch is a list of decisions, each carried out by itself.

The request only writes the list down, together with a message for the queue. A worker takes the
decisions one by one, one transaction each; what a killed one leaves, the sweep goes on with.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, Count, Exists, OuterRef, Prefetch, Q, QuerySet, Value, When
from django.utils import timezone
from django_q.tasks import async_task

from payments.approval import Seen, approve
from payments.models import ApprovalBatch, BatchItem, PaymentTask
from returns.destinations import BY_HAND
from returns.errors import BatchChanged, Invalid, RefundDeskError
from returns.locking import lock_rows
from returns.models import RefundOperation
from returns.permissions import require
from returns.queries import operations
from returns.retrying import database_work_is_retried
from returns.states import ENDED, OperationState, TaskState
from returns.timeline import refusals_are_recorded

log = logging.getLogger(__name__)

# More than a person has looked at in one go.
MOST_ITEMS = 500

Outcome = BatchItem.Outcome
PAID = (OperationState.PAID, OperationState.POSTED)


@dataclass(frozen=True, order=True)
class Decision:
    """A yes to `amount_minor` (minor units) for a return as it was in this version."""

    operation_key: UUID
    version: int
    amount_minor: int


@refusals_are_recorded("approve")
@database_work_is_retried
def open_batch(*, token: UUID, by: User, decisions: Sequence[Decision]) -> ApprovalBatch:
    """Write down that one manager approves all of these, and have it carried out.

    The same token again with the same decisions is the same batch. Raises NotAllowed (role),
    Invalid (none, too many, twice the same, unknown, nothing to pay) and BatchChanged.
    """
    require(by, "approve")
    chosen = _chosen(decisions)
    with transaction.atomic():
        batch, created = ApprovalBatch.objects.get_or_create(
            token=token, defaults={"opened_by": by, "opened_at": timezone.now()}
        )
        if not created:
            _refuse_other_content(batch, by, decisions)
            return batch
        BatchItem.objects.bulk_create(
            BatchItem(
                batch=batch,
                operation=chosen[decision.operation_key],
                version=decision.version,
                amount_minor=decision.amount_minor,
            )
            for decision in decisions
        )
        async_task("payments.tasks.approve_batch", batch.pk, cluster=settings.MONEY_QUEUE)
    return batch


def _chosen(decisions: Sequence[Decision]) -> dict[UUID, RefundOperation]:
    keys = [decision.operation_key for decision in decisions]
    if not keys:
        raise Invalid({"returns": "Choose at least one return."})
    if len(keys) > MOST_ITEMS:
        raise Invalid({"returns": f"Choose at most {MOST_ITEMS} returns at once."})
    if len(set(keys)) != len(keys):
        raise Invalid({"returns": "Choose each return once."})
    if any(decision.amount_minor <= 0 for decision in decisions):
        raise Invalid({"returns": "Every amount must be above zero."})
    found = {
        row.operation_key: row for row in RefundOperation.objects.filter(operation_key__in=keys)
    }
    if len(found) != len(keys):
        raise Invalid({"returns": "Some of these returns do not exist."})
    return found


def _refuse_other_content(batch: ApprovalBatch, by: User, decisions: Sequence[Decision]) -> None:
    written = batch.items.values_list("operation__operation_key", "version", "amount_minor")
    if batch.opened_by_id != by.pk or sorted(written) != sorted(map(astuple, decisions)):
        raise BatchChanged("This selection was sent before with other returns. Choose again.")


def waiting_items(batch_id: int | None = None) -> list[int]:
    """Decisions that nobody has carried out yet, oldest first; of one batch or of all."""
    waiting = BatchItem.objects.filter(outcome=Outcome.WAITING)
    if batch_id is not None:
        waiting = waiting.filter(batch=batch_id)
    return list(waiting.order_by("pk").values_list("pk", flat=True)[:MOST_ITEMS])


@database_work_is_retried
def carry_out(item_id: int) -> int:
    """Approve one return of a batch as its manager, or write down why not; 1 if it was approved.

    The result is written in the transaction of the approval: both or neither.
    """
    with transaction.atomic():
        # Whoever waited for the lock finds the decision carried out.
        for item in lock_rows(BatchItem.objects.filter(pk=item_id, outcome=Outcome.WAITING)):
            _decide(item)
            item.done_at = timezone.now()
            item.save(update_fields=["outcome", "code", "words", "done_at"])
            return int(item.outcome == Outcome.APPROVED)
    return 0


def _decide(item: BatchItem) -> None:
    try:
        approve(
            operation_key=item.operation.operation_key,
            by=item.batch.opened_by,
            amount_minor=item.amount_minor,
            seen=Seen(version=item.version),
        )
    except RefundDeskError as refusal:
        item.outcome, item.code, item.words = Outcome.REFUSED, refusal.code, _words(refusal)
    else:
        item.outcome = Outcome.APPROVED


def _words(refusal: RefundDeskError) -> str:
    if isinstance(refusal, Invalid):
        return " ".join(str(complaint) for complaint in refusal.fields.values())
    return refusal.detail


@dataclass(frozen=True)
class Counts:
    """Where the returns of a batch stand; each is counted once."""

    waiting: int
    refused: int
    # Approved, and another approval is needed: of a second manager, or after a decline.
    owed: int
    # Reserved, and a person has to do something: hand the money over, or look at the payment.
    for_a_person: int
    on_its_way: int
    unknown: int
    paid: int
    # Rejected or withdrawn since.
    ended: int

    @property
    def unfinished(self) -> int:
        """Those of which something will be heard without anybody doing anything."""
        return self.waiting + self.on_its_way + self.unknown


def counts(batch: ApprovalBatch) -> Counts:
    """Where the returns of a batch stand now, in one statement."""
    payments = PaymentTask.objects.filter(operation=OuterRef("operation"))
    unknown = Exists(payments.filter(state=TaskState.UNKNOWN))
    for_a_person = Exists(
        payments.filter(
            Q(state=TaskState.STUCK)
            | Q(provider=BY_HAND, state__in=[TaskState.PENDING, TaskState.SENDING])
        )
    )
    standings = batch.items.annotate(
        standing=Case(
            When(outcome=Outcome.WAITING, then=Value("waiting")),
            When(outcome=Outcome.REFUSED, then=Value("refused")),
            When(operation__state__in=sorted(ENDED), then=Value("ended")),
            When(operation__state=OperationState.APPROVED, then=Value("owed")),
            When(operation__state__in=PAID, then=Value("paid")),
            When(unknown, then=Value("unknown")),
            When(for_a_person, then=Value("for_a_person")),
            default=Value("on_its_way"),
        )
    ).values_list("standing")
    found = dict(standings.annotate(Count("pk")))
    return Counts(**{field.name: found.get(field.name, 0) for field in fields(Counts)})


def items(batch: ApprovalBatch) -> QuerySet[BatchItem]:
    """The returns of a batch in the order they were chosen in, with what a list shows."""
    return batch.items.prefetch_related(Prefetch("operation", operations())).order_by("pk")
