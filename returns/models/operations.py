"""The refund operation and what it claims."""

from __future__ import annotations

from typing import Any

import pghistory
import pgtrigger
from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django_fsm import FSMField, transition

from returns.models import guards
from returns.models.orders import Order, OrderLine
from returns.states import ENDED, OPERATION_EDGES, OperationState, edge


class Channel(models.TextChoices):
    """Where a request came in. Never part of the identity."""

    COUNTER = "counter", _("counter")
    ONLINE = "online", _("online")
    EMAIL = "email", _("e-mail")
    PHONE = "phone", _("phone")
    AGENT = "agent", _("agent")


def _along(verb: str) -> Any:
    """The django-fsm decorator for one edge of the table."""
    step = edge(OPERATION_EDGES, verb)
    return transition(field="state", source=[str(s) for s in step.sources], target=str(step.target))


@pghistory.track(model_name="RefundOperationHistory")
class RefundOperation(models.Model):
    """One permanent decision about returning money for a set of claims.

    `amount_minor` is what was approved, in minor units; unset until then, fixed after.
    `refunded_minor` is how much of it is confirmed as paid.
    """

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="operations")
    operation_key = models.UUIDField(unique=True, editable=False)
    subject_set = models.TextField()
    generation = models.PositiveIntegerField()
    state = FSMField(
        default=OperationState.RECEIVED, choices=OperationState.choices, protected=True
    )
    state_changed_at = models.DateTimeField()
    currency = models.CharField(max_length=3)
    amount_minor = models.BigIntegerField(null=True, blank=True)
    refunded_minor = models.BigIntegerField(default=0)
    # How many rounds of paying have been reserved: one, unless a payment was declined or came back.
    pay_rounds = models.PositiveIntegerField(default=0)
    # Counts every change, so that a decision made on an older view can be refused.
    version = models.PositiveIntegerField(default=1)
    taken_in_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    taken_in_channel = models.CharField(max_length=16, choices=Channel.choices)
    taken_in_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["order", "subject_set", "generation"], name="operation_identity"
            ),
            models.CheckConstraint(
                condition=Q(amount_minor__isnull=True) | Q(amount_minor__gt=0),
                name="operation_amount_positive",
            ),
            models.CheckConstraint(
                condition=Q(refunded_minor__gte=0)
                & (Q(refunded_minor=0) | Q(refunded_minor__lte=F("amount_minor"))),
                name="operation_refunded_within_amount",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["paid", "posted"]) | Q(refunded_minor=F("amount_minor")),
                name="operation_paid_means_confirmed",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=sorted(ENDED)) | Q(refunded_minor=0),
                name="operation_ended_means_unpaid",
            ),
        ]
        indexes = [
            models.Index("state", "id", name="operation_state"),
            models.Index("order", "id", name="operation_order"),
            models.Index("state_changed_at", "id", name="operation_changed"),
        ]
        triggers = [
            guards.kept(),
            guards.born(OperationState.RECEIVED),
            guards.edges_only(OPERATION_EDGES),
            guards.fixed("operation_key", "order", "subject_set", "generation", "currency"),
            guards.fixed_once_set("amount_minor"),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        """The short name people use. The permanent identity is `operation_key`."""
        return f"R-{self.pk}"

    @property
    def outstanding_minor(self) -> int:
        """Approved but not confirmed as paid, minor units; 0 before approval."""
        return (self.amount_minor or 0) - self.refunded_minor

    def save_change(self, *fields: str) -> None:
        """Save the state and the named fields of a locked operation as its next version."""
        self.version += 1
        self.state_changed_at = timezone.now()
        self.save(update_fields=["state", "version", "state_changed_at", *fields])

    # The whole machine on one screen. Transitions set the state only; effects live in the verbs.
    @_along("inspect")
    def inspect(self) -> None: ...

    @_along("approve")
    def approve(self) -> None: ...

    @_along("reserve")
    def reserve(self) -> None: ...

    @_along("settle")
    def settle(self) -> None: ...

    @_along("post")
    def post(self) -> None: ...

    @_along("reject")
    def reject(self) -> None: ...

    @_along("withdraw")
    def withdraw(self) -> None: ...

    @_along("release")
    def release(self) -> None: ...

    @_along("reopen")
    def reopen(self) -> None: ...


_CLAIM_JOINS_ONLY_AT_INTAKE = """
    IF NOT NEW.live OR NOT EXISTS (
        SELECT 1 FROM returns_refundoperation o
        WHERE o.id = NEW.operation_id AND o.order_id = NEW.order_id AND o.state = 'received'
    ) THEN
        RAISE EXCEPTION 'claims are made live, at intake, on the operation''s own order';
    END IF;
    RETURN NEW;
"""

_CLAIM_IS_FREED_ONLY_WHILE_NO_MONEY_MOVES = """
    IF EXISTS (
        SELECT 1 FROM returns_refundoperation o
        WHERE o.id = NEW.operation_id
          AND (o.state IN ('reserved', 'paid', 'posted') OR o.refunded_minor > 0)
    ) THEN
        RAISE EXCEPTION 'a claim cannot be freed once money is reserved or paid for it';
    END IF;
    RETURN NEW;
"""


@pghistory.track(model_name="ClaimHistory")
class Claim(models.Model):
    """One indivisible subject that is being given back, worth `amount_minor` minor units."""

    class Kind(models.TextChoices):
        LINE = "line", _("goods")
        SHIPPING = "shipping", _("shipping")
        GOODWILL = "goodwill", _("goodwill")

    operation = models.ForeignKey(RefundOperation, on_delete=models.PROTECT, related_name="claims")
    # Repeated here so that "one live claim per subject of an order" is one unique index.
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="claims")
    subject = models.CharField(max_length=200)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    line = models.ForeignKey(
        OrderLine, on_delete=models.PROTECT, null=True, blank=True, related_name="claims"
    )
    unit = models.PositiveIntegerField(null=True, blank=True)
    amount_minor = models.BigIntegerField()
    live = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["order", "subject"],
                condition=Q(live=True),
                name="one_live_claim_per_subject",
            ),
            models.UniqueConstraint(
                fields=["operation", "subject"], name="one_claim_per_subject_in_operation"
            ),
            models.CheckConstraint(condition=Q(amount_minor__gte=0), name="claim_not_negative"),
        ]
        triggers = [
            guards.kept(),
            guards.fixed("operation", "order", "subject", "kind", "line", "unit", "amount_minor"),
            pgtrigger.Trigger(
                name="made_at_intake",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func=_CLAIM_JOINS_ONLY_AT_INTAKE,
            ),
            pgtrigger.Protect(
                name="never_revived",
                operation=pgtrigger.Update,
                condition=pgtrigger.Q(old__live=False, new__live=True),
            ),
            pgtrigger.Trigger(
                name="freed_before_money",
                operation=pgtrigger.Update,
                when=pgtrigger.Before,
                condition=pgtrigger.Q(old__live=True, new__live=False),
                func=_CLAIM_IS_FREED_ONLY_WHILE_NO_MONEY_MOVES,
            ),
        ]

    def __str__(self) -> str:
        return self.subject
