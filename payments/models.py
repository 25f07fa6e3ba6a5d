"""Who approved, what we intend to pay, each call about it, and what the provider told us."""

from __future__ import annotations

import pghistory
import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import Q

from payments.outcomes import Purpose
from returns.models import RefundOperation, Tender, guards
from returns.states import TASK_EDGES, TASK_FINAL, TaskState


class Approval(models.Model):
    """One manager's yes to one round of paying an operation; amounts in minor units."""

    operation = models.ForeignKey(
        RefundOperation, on_delete=models.PROTECT, related_name="approvals"
    )
    # Which round of paying this is for; after a decline and release the next round needs a new one.
    generation = models.PositiveIntegerField()
    approved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    # Where the money goes: [[tender pk, minor units], ...].
    split = models.JSONField()
    # Binds the yes to amount, currency, destination and lines; any change voids it.
    digest = models.CharField(max_length=64)
    note = models.TextField(blank=True)
    approved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="approval_positive"),
        ]
        indexes = [models.Index("operation", "generation", name="approval_round")]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.operation_id} by {self.approved_by_id}"


class ApprovalBatch(models.Model):
    """Returns that one manager approves in one go."""

    # Chosen by whoever sends it: sending it twice is the same batch.
    token = models.UUIDField(unique=True)
    opened_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    opened_at = models.DateTimeField()

    class Meta:
        triggers = guards.append_only()

    def __str__(self) -> str:
        return str(self.token)


class BatchItem(models.Model):
    """One decision of a batch, as the manager saw the return; amount in minor units."""

    class Outcome(models.TextChoices):
        WAITING = "waiting"
        APPROVED = "approved"
        REFUSED = "refused"

    batch = models.ForeignKey(ApprovalBatch, on_delete=models.PROTECT, related_name="items")
    operation = models.ForeignKey(RefundOperation, on_delete=models.PROTECT, related_name="+")
    version = models.PositiveIntegerField()
    amount_minor = models.BigIntegerField()
    outcome = models.CharField(max_length=8, choices=Outcome.choices, default=Outcome.WAITING)
    # Why it was refused.
    code = models.CharField(max_length=40, blank=True)
    words = models.TextField(blank=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "operation"], name="once_in_a_batch"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="batch_item_positive"),
            models.CheckConstraint(
                condition=Q(outcome="waiting", done_at__isnull=True)
                | Q(outcome__in=["approved", "refused"], done_at__isnull=False),
                name="batch_item_done_or_waiting",
            ),
        ]
        indexes = [models.Index("id", name="batch_item_waiting", condition=Q(outcome="waiting"))]
        triggers = [
            guards.kept(),
            guards.born("waiting", "outcome"),
            guards.fixed("batch", "operation", "version", "amount_minor"),
            pgtrigger.Protect(
                name="carried_out_once",
                operation=pgtrigger.Update,
                condition=~pgtrigger.Q(old__outcome="waiting"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation_id} {self.outcome}"


class OutboundRow(models.Model):
    """A recorded intention to make something happen elsewhere exactly once.

    Shared by payments and ERP postings; `payments.outbound` is the only writer of these fields.
    """

    state = models.CharField(
        max_length=16, default=TaskState.PENDING, choices=TaskState.choices, editable=False
    )
    # Fencing token: grows with every claim, so a worker can tell whether the row is still its own.
    lease = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True, blank=True)
    next_look_at = models.DateTimeField(null=True, blank=True)
    first_sent_at = models.DateTimeField(null=True, blank=True)
    last_sent_at = models.DateTimeField(null=True, blank=True)
    # Until then the last sender may still put its request on the wire.
    last_send_ends_at = models.DateTimeField(null=True, blank=True)
    # After this nothing is sent again: the counterpart may have forgotten the key.
    safe_retry_until = models.DateTimeField(null=True, blank=True)
    # When the last look-up that found nothing was started.
    absent_at = models.DateTimeField(null=True, blank=True)
    in_doubt = models.BooleanField(default=False)
    refused_in_doubt = models.BooleanField(default=False)
    # Calls in a row that ended with a dead worker, and looks in a row that brought nothing new.
    deaths = models.PositiveSmallIntegerField(default=0)
    quiet_looks = models.PositiveSmallIntegerField(default=0)
    last_answer = models.TextField(blank=True)
    # A word for what a person must hear about; empty while all is well.
    attention = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


def outbound_checks(prefix: str) -> list[models.BaseConstraint]:
    """Nothing that is not final may be without a next look (DESIGN: no row is ever forgotten)."""
    return [
        models.CheckConstraint(
            condition=Q(state__in=sorted([*TASK_FINAL, TaskState.STUCK]))
            | Q(next_look_at__isnull=False),
            name=f"{prefix}_has_a_next_look",
        )
    ]


_TASK_FITS_ITS_TENDER = """
    IF NOT EXISTS (
        SELECT 1 FROM returns_tender t
        JOIN returns_order s ON s.id = t.order_id
        JOIN returns_refundoperation o ON o.order_id = s.id
        WHERE t.id = NEW.tender_id AND o.id = NEW.operation_id
          AND s.currency = NEW.currency
          AND o.state = 'reserved' AND o.pay_rounds = NEW.generation
    ) THEN
        RAISE EXCEPTION 'a payment needs a reserved operation and a tender of the same order '
            'and currency';
    END IF;
    RETURN NEW;
"""


@pghistory.track(model_name="PaymentTaskHistory")
class PaymentTask(OutboundRow):
    """The recorded intention to pay `amount_minor` of an operation back on one tender."""

    operation = models.ForeignKey(
        RefundOperation, on_delete=models.PROTECT, related_name="payments"
    )
    tender = models.ForeignKey(Tender, on_delete=models.PROTECT, related_name="payments")
    generation = models.PositiveIntegerField()
    wire_key = models.UUIDField(unique=True, editable=False)
    provider = models.CharField(max_length=32)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    # What the provider calls the refund, once it has told us.
    provider_refund = models.CharField(  # noqa: DJ001 - NULLs are not equal, blanks are
        max_length=200, null=True, blank=True
    )
    # Provider's own time of the newest event applied, so that older news never moves us back.
    news_at = models.DateTimeField(null=True, blank=True)
    handed_over_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "tender", "generation"],
                name="one_payment_per_round_and_tender",
            ),
            models.UniqueConstraint(
                fields=["provider", "provider_refund"], name="one_payment_per_provider_refund"
            ),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="payment_positive"),
            *outbound_checks("payment"),
        ]
        indexes = [
            models.Index(
                "next_look_at", name="payment_due", condition=Q(next_look_at__isnull=False)
            ),
            models.Index("state", "id", name="payment_state"),
            models.Index("id", name="payment_attention", condition=~Q(attention="")),
        ]
        triggers = [
            guards.kept(),
            guards.born(TaskState.PENDING),
            guards.edges_only(TASK_EDGES),
            guards.fixed(
                "operation",
                "tender",
                "generation",
                "wire_key",
                "provider",
                "amount_minor",
                "currency",
            ),
            guards.fixed_once_set("provider_refund"),
            pgtrigger.Trigger(
                name="fits_its_tender",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func=_TASK_FITS_ITS_TENDER,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.wire_key} {self.state}"


class AttemptRow(models.Model):
    """One step of one call: written `started` before it and `ended` after it, never changed.

    A start without an end is a call whose worker never came back.
    """

    class Step(models.TextChoices):
        STARTED = "started"
        ENDED = "ended"

    # The lease under which the call was made; it numbers the attempts.
    lease = models.PositiveIntegerField()
    step = models.CharField(max_length=8, choices=Step.choices)
    purpose = models.CharField(max_length=4, choices=[(p.value, p.value) for p in Purpose])
    worker = models.CharField(max_length=100)
    outcome = models.CharField(max_length=16, blank=True)
    detail = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        abstract = True


class PaymentAttempt(AttemptRow):
    """A call to a payment provider."""

    row = models.ForeignKey(PaymentTask, on_delete=models.PROTECT, related_name="attempts")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["row", "lease", "step"], name="one_step_per_payment_call"
            )
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.row_id} {self.purpose} {self.step}"


class ProviderEvent(models.Model):
    """One webhook as it arrived, and what became of it."""

    class Standing(models.TextChoices):
        APPLIED = "applied"
        PARKED = "parked"
        IGNORED = "ignored"
        NOT_UNDERSTOOD = "not_understood"

    provider = models.CharField(max_length=32)
    event_id = models.CharField(max_length=200)
    kind = models.CharField(max_length=100)
    occurred_at = models.DateTimeField()
    body = models.TextField()
    live_mode = models.BooleanField()
    standing = models.CharField(max_length=16, choices=Standing.choices)
    note = models.TextField(blank=True)
    received_at = models.DateTimeField()
    applied_at = models.DateTimeField(null=True, blank=True)
    next_look_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "event_id"], name="event_stored_once")
        ]
        indexes = [
            models.Index("next_look_at", name="event_parked", condition=Q(standing="parked"))
        ]
        triggers = [
            guards.kept(),
            guards.fixed("provider", "event_id", "kind", "occurred_at", "body", "live_mode"),
        ]

    def __str__(self) -> str:
        return self.event_id


class ProviderHalt(models.Model):
    """A provider refuses our credentials: its queue rests until then."""

    provider = models.CharField(max_length=32, unique=True)
    reason = models.TextField()
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.provider} until {self.until}"


class Heartbeat(models.Model):
    """When a process that never ends was last alive."""

    name = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.at}"
