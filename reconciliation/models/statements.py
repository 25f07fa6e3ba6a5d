"""What the provider says it has paid, and what the ERP says it has credited."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from reconciliation.statements.formats import LineKind
from returns.models import guards

_KINDS = [(kind.value, kind.value.replace("_", " ")) for kind in LineKind]


class SettlementImport(models.Model):
    """One settlement file, or one look at a provider's list, and what came of it."""

    source = models.CharField(max_length=32)
    name = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64, blank=True)
    imported_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    imported_at = models.DateTimeField()
    new = models.PositiveIntegerField(default=0)
    known = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField()
    # Lines that are not about refunds: sales, fees, payouts.
    other = models.PositiveIntegerField()

    class Meta:
        triggers = [
            guards.kept(),
            guards.fixed(
                "source", "name", "sha256", "imported_by", "imported_at", "refused", "other"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.name}"


class SettlementRefusal(models.Model):
    """A line of a file that could not be used, and why."""

    statement = models.ForeignKey(
        SettlementImport, on_delete=models.PROTECT, related_name="refusals"
    )
    number = models.PositiveIntegerField()
    reason = models.TextField()

    class Meta:
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"line {self.number}: {self.reason}"


class SettlementLine(models.Model):
    """One movement of money as the provider lists it. `amount_minor` left us; negative came back.

    `identity` is the provider's own number of the line or, without one, its content and how often
    it had occurred in its file: the same line in another file is the same line.
    """

    account = models.CharField(max_length=32)
    identity = models.CharField(max_length=210)
    provider = models.CharField(max_length=32)
    statement = models.ForeignKey(SettlementImport, on_delete=models.PROTECT, related_name="lines")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=20, choices=_KINDS)
    # References as the provider writes them: of its refund, of the captured payment, and ours.
    refund = models.CharField(max_length=200, blank=True)
    payment = models.CharField(max_length=200, blank=True)
    operation = models.CharField(max_length=200, blank=True)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "identity"], name="settlement_line_once"),
            models.CheckConstraint(condition=~Q(amount_minor=0), name="settlement_line_moves"),
        ]
        indexes = [
            # What a run needs to see which refunds have several lines without reading the lines.
            models.Index(
                fields=["provider", "refund"],
                include=["kind", "at"],
                name="settlement_line_refund",
            ),
            models.Index("at", name="settlement_line_at"),
            models.Index(
                "provider",
                "payment",
                name="settlement_chargeback",
                condition=Q(kind__in=["chargeback", "chargeback_reversed"]),
            ),
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.account} {self.identity}"


class ErpEntry(models.Model):
    """One posted credit as the ERP lists it, `amount_minor` minor units."""

    entry = models.CharField(max_length=64, unique=True)
    reference = models.CharField(max_length=200)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    # The ERP's own posting date.
    posted_on = models.DateField()
    seen_at = models.DateTimeField()
    # What the ERP lists today where that is something else, in words and in minor units.
    listed_as = models.TextField(blank=True)
    listed_minor = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "ERP entries"
        indexes = [
            models.Index(fields=["reference"], include=["posted_on"], name="erp_entry_reference"),
            models.Index("posted_on", name="erp_entry_posted_on"),
            models.Index("entry", name="erp_entry_changed", condition=~Q(listed_as="")),
        ]
        # What is posted in an ERP never changes; an entry that is listed otherwise is a finding.
        triggers = [
            guards.kept(),
            guards.fixed("entry", "reference", "amount_minor", "currency", "posted_on", "seen_at"),
        ]

    def __str__(self) -> str:
        return self.entry
