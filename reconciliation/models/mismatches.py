"""What a person has to close."""

from __future__ import annotations

import pghistory
import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from payments.models import PaymentTask, ProviderEvent
from reconciliation.models.postings import ErpPosting
from reconciliation.models.runs import ReconciliationRun
from reconciliation.models.statements import ErpEntry, SettlementLine
from returns.models import RefundOperation, guards


@pghistory.track(model_name="MismatchHistory")
class Mismatch(models.Model):
    """An open item a person must close. Resolving it never moves money by itself."""

    class Kind(models.TextChoices):
        PAYMENT_WITHOUT_OPERATION = "payment_without_operation", _("payment without operation")
        PAID_NOT_AT_PROVIDER = "paid_not_at_provider", _("operation paid but not at the provider")
        AMOUNT_DIFFERS = "amount_differs", _("amount differs")
        CURRENCY_DIFFERS = "currency_differs", _("currency differs")
        MORE_THAN_ONE_PAYMENT = "more_than_one_payment", _("more than one payment for an operation")
        CREDIT_MISSING = "credit_missing", _("credit missing in the ERP")
        CREDIT_WITHOUT_PAYMENT = "credit_without_payment", _("credit without payment")
        CREDIT_AMOUNT_DIFFERS = "credit_amount_differs", _("credit amount differs")
        MORE_THAN_ONE_CREDIT = "more_than_one_credit", _("more than one credit")
        RETURNED_AFTER_SUCCESS = "returned_after_success", _("payment returned after success")
        STUCK_PAYMENT = "stuck_payment", _("stuck unknown payment")
        ERP_REFUSED = "erp_refused", _("ERP refused")
        REFERENCE_DAMAGED = "reference_damaged", _("reference damaged")
        EVENT_NOT_UNDERSTOOD = "event_not_understood", _("event not understood")
        CHARGEBACK_BESIDE_REFUND = "chargeback_beside_refund", _("chargeback beside refund")

    class Status(models.TextChoices):
        OPEN = "open", _("open")
        RESOLVED = "resolved", _("resolved")

    class Resolution(models.TextChoices):
        LINK = "link", _("link to an operation")
        ACCEPT = "accept", _("accept the difference")
        CORRECTION = "correction", _("correction made elsewhere")
        CHASE = "chase", _("the provider's error, chase it")
        RIGHTED = "righted", _("has become right by itself")

    # The same fact found again is the same mismatch.
    fingerprint = models.CharField(max_length=320, unique=True)
    kind = models.CharField(max_length=32, choices=Kind.choices)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    operation = models.ForeignKey(
        RefundOperation, on_delete=models.PROTECT, null=True, blank=True, related_name="mismatches"
    )
    payment = models.ForeignKey(
        PaymentTask, on_delete=models.PROTECT, null=True, blank=True, related_name="mismatches"
    )
    event = models.ForeignKey(
        ProviderEvent, on_delete=models.PROTECT, null=True, blank=True, related_name="mismatches"
    )
    posting = models.ForeignKey(
        ErpPosting, on_delete=models.PROTECT, null=True, blank=True, related_name="mismatches"
    )
    # What a reconciliation run has compared: the row it is about, and the figures of both sides.
    run = models.ForeignKey(
        ReconciliationRun,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="mismatches",
    )
    subject = models.CharField(max_length=250, blank=True)
    line = models.ForeignKey(
        SettlementLine, on_delete=models.PROTECT, null=True, blank=True, related_name="mismatches"
    )
    entry = models.ForeignKey(
        ErpEntry, on_delete=models.PROTECT, null=True, blank=True, related_name="mismatches"
    )
    day = models.DateField(null=True, blank=True)
    expected_minor = models.BigIntegerField(null=True, blank=True)
    found_minor = models.BigIntegerField(null=True, blank=True)
    at_stake_minor = models.BigIntegerField(default=0)
    currency = models.CharField(max_length=3, blank=True)
    detail = models.TextField()
    opened_at = models.DateTimeField()
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    # As proposed while the item is open, as decided once it is closed.
    resolution = models.CharField(max_length=16, choices=Resolution.choices, blank=True)
    reason = models.TextField(blank=True)
    # What shows it: a link, a file's name, the number of an entry or a ticket.
    evidence = models.TextField(blank=True, default="", db_default="")
    link_to = models.ForeignKey(
        RefundOperation, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    # The first of two people, where more is at stake than one may decide on alone.
    proposed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    proposed_at = models.DateTimeField(null=True, blank=True)
    # How much one person could decide on alone when this was decided, minor units.
    alone_up_to_minor = models.BigIntegerField(default=0, db_default=0)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "mismatches"
        constraints = [
            models.CheckConstraint(
                condition=Q(status="open") | (Q(resolved_at__isnull=False) & ~Q(resolution="")),
                name="mismatch_closed_with_a_resolution",
            ),
            models.CheckConstraint(
                condition=Q(proposed_by__isnull=True, proposed_at__isnull=True)
                | (Q(proposed_by__isnull=False, proposed_at__isnull=False) & ~Q(resolution="")),
                name="mismatch_proposal_is_whole",
            ),
            models.CheckConstraint(
                condition=Q(resolved_by__isnull=True)
                | Q(at_stake_minor__lte=F("alone_up_to_minor"))
                | Q(proposed_by__isnull=False),
                name="mismatch_above_the_limit_takes_two",
            ),
            models.CheckConstraint(
                condition=~Q(proposed_by=F("resolved_by")), name="mismatch_two_are_not_the_same"
            ),
        ]
        indexes = [
            models.Index("opened_at", "id", name="mismatch_open", condition=Q(status="open")),
            models.Index("kind", "subject", name="mismatch_subject", condition=~Q(subject="")),
        ]
        triggers = [
            guards.kept(),
            # Facts and money of an item are as they were found; a person decides, no more.
            guards.fixed(
                *("fingerprint", "kind", "subject", "opened_at", "detail", "day", "currency"),
                *("at_stake_minor", "expected_minor", "found_minor"),
                *("payment", "event", "posting", "run", "line", "entry"),
            ),
            pgtrigger.Protect(
                name="closed_for_good",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__status="resolved"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} · {self.operation or self.fingerprint}"

    @property
    def is_open(self) -> bool:
        return self.status == self.Status.OPEN

    @property
    def is_proposed(self) -> bool:
        """Whether somebody has decided and a second person must agree."""
        return self.is_open and self.proposed_by_id is not None

    @property
    def difference_minor(self) -> int | None:
        """What was found beyond what we expected; None where nothing was compared."""
        if self.expected_minor is None or self.found_minor is None:
            return None
        return self.found_minor - self.expected_minor


class MismatchEvent(models.Model):
    """What a person did about a mismatch, written by the verb that did it."""

    class Verb(models.TextChoices):
        LOOK_AT = "look_at", _("looked at for the first time")
        ASSIGN = "assign", _("assigned")
        NOTE = "note", _("noted")
        ASK_AGAIN = "ask_again", _("provider is being asked again")
        POST_AGAIN = "post_again", _("posting is being tried again")
        PROPOSE = "propose", _("proposed; a second person must confirm it")
        TURN_DOWN = "turn_down", _("proposal turned down")
        RESOLVE = "resolve", _("closed")

    mismatch = models.ForeignKey(Mismatch, on_delete=models.PROTECT, related_name="events")
    verb = models.CharField(max_length=16, choices=Verb.choices)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    note = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            # From here to the resolution is the time that reconciling has taken.
            models.UniqueConstraint(
                fields=["mismatch"], name="one_first_look", condition=Q(verb="look_at")
            )
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.mismatch_id} {self.verb}"
