"""The credit that each paid operation needs in the ERP, and each call about it."""

from __future__ import annotations

import pghistory
from django.db import models
from django.db.models import Q

from payments.models import AttemptRow, OutboundRow, outbound_checks
from returns.models import RefundOperation, guards
from returns.states import TASK_EDGES, TASK_FINAL, TaskState


@pghistory.track(model_name="ErpPostingHistory")
class ErpPosting(OutboundRow):
    """The recorded intention to credit a paid operation in the ERP, `amount_minor` minor units.

    The reference at the ERP is the operation's key.
    """

    operation = models.OneToOneField(
        RefundOperation, on_delete=models.PROTECT, related_name="posting"
    )
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    # The day the money went; the ERP's own posting date is the day of posting.
    refunded_on = models.DateField()
    entry = models.CharField(  # noqa: DJ001 - NULLs are not equal, blanks are
        max_length=64, null=True, blank=True
    )
    # A request that was in doubt may still leave a late draft behind; look for it then.
    tidy_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["entry"], name="one_posting_per_entry"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="posting_positive"),
            *outbound_checks("posting"),
        ]
        indexes = [
            models.Index(
                "next_look_at",
                name="posting_due",
                condition=~Q(state__in=sorted([*TASK_FINAL, TaskState.STUCK])),
            ),
            models.Index("state", "id", name="posting_state"),
            models.Index("id", name="posting_attention", condition=~Q(attention="")),
            models.Index("tidy_at", name="posting_tidy", condition=Q(tidy_at__isnull=False)),
        ]
        triggers = [
            guards.kept(),
            guards.born(TaskState.PENDING),
            guards.edges_only(TASK_EDGES),
            guards.fixed("operation", "amount_minor", "currency", "refunded_on"),
            guards.fixed_once_set("entry"),
        ]

    def __str__(self) -> str:
        return f"{self.operation_id} {self.state}"


class PostingAttempt(AttemptRow):
    """A call to the ERP."""

    row = models.ForeignKey(ErpPosting, on_delete=models.PROTECT, related_name="attempts")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["row", "lease", "step"], name="one_step_per_erp_call")
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.row_id} {self.purpose} {self.step}"
