"""What was said, found, decided and refused. Written once, never changed."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from returns.models import guards
from returns.models.operations import Channel, Claim, RefundOperation
from returns.models.orders import Order


class IntakeMessage(models.Model):
    """One inbound message or counter visit, stored verbatim. Many messages, one operation."""

    channel = models.CharField(max_length=16, choices=Channel.choices)
    message_id = models.CharField(max_length=200)
    operation = models.ForeignKey(
        RefundOperation, on_delete=models.PROTECT, related_name="messages"
    )
    submitted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    # What was asked for, canonical; the same id with another digest is another message.
    request = models.JSONField()
    request_digest = models.CharField(max_length=64)
    reason = models.TextField(blank=True)
    customer_text = models.TextField(blank=True)
    joined = models.BooleanField()
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "message_id"], name="message_unique_in_channel"
            )
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.channel} {self.message_id}"


class Inspection(models.Model):
    """Who looked at the goods, and when."""

    operation = models.OneToOneField(
        RefundOperation, on_delete=models.PROTECT, related_name="inspection"
    )
    inspected_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    note = models.TextField(blank=True)
    findings_digest = models.CharField(max_length=64)
    inspected_at = models.DateTimeField()

    class Meta:
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"inspection of {self.operation_id}"


class Finding(models.Model):
    """What the inspection found about one unit."""

    inspection = models.ForeignKey(Inspection, on_delete=models.PROTECT, related_name="findings")
    claim = models.OneToOneField(Claim, on_delete=models.PROTECT, related_name="finding")
    accepted = models.BooleanField()
    condition = models.CharField(max_length=100, blank=True)
    restock = models.BooleanField(default=False)

    class Meta:
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.claim_id} {'accepted' if self.accepted else 'rejected'}"


class OperationEvent(models.Model):
    """One line of an operation's business timeline, written by the verb that made it true."""

    operation = models.ForeignKey(RefundOperation, on_delete=models.PROTECT, related_name="events")
    verb = models.CharField(max_length=32)
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16, blank=True)
    # A person, or empty for a worker.
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    note = models.TextField(blank=True)
    facts = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index("operation", "id", name="event_operation")]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.operation_id} {self.verb}"


class RefusedAttempt(models.Model):
    """Something a person or a program asked for and was refused. Kept for the audit."""

    verb = models.CharField(max_length=32)
    code = models.CharField(max_length=32)
    detail = models.TextField()
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    operation = models.ForeignKey(
        RefundOperation, on_delete=models.PROTECT, null=True, related_name="refused_attempts"
    )
    order = models.ForeignKey(Order, on_delete=models.PROTECT, null=True, related_name="+")
    facts = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.verb} {self.code}"
