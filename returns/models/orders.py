"""The order as sold, how it was paid, and the balance that every refund is measured against."""

from __future__ import annotations

import functools
import operator

import pghistory
import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper
from django.utils.translation import gettext_lazy as _

from returns.models import guards
from returns.refundable import line_total, unit_values

# Facts that refunds rest on must not move under them. The verb refuses first and says why; this
# is the database's own word on it.
_SOLD_FACTS_FIXED = """
    IF EXISTS (SELECT 1 FROM returns_refundoperation o WHERE o.order_id = OLD.order_id) THEN
        RAISE EXCEPTION 'the order as sold cannot change: returns rest on it (table %)',
            TG_TABLE_NAME;
    END IF;
    RETURN NEW;
"""


def _sold_facts_fixed(*fields: str) -> pgtrigger.Trigger:
    changed = [pgtrigger.Q(**{f"old__{f}__df": pgtrigger.F(f"new__{f}")}) for f in fields]
    return pgtrigger.Trigger(
        name="sold_facts_fixed",
        operation=pgtrigger.Update,
        when=pgtrigger.Before,
        condition=functools.reduce(operator.or_, changed),
        func=_SOLD_FACTS_FIXED,
    )


@pghistory.track(model_name="OrderHistory")
class Order(models.Model):
    """One sale. Amounts are minor units of `currency`."""

    number = models.CharField(max_length=64)
    currency = models.CharField(max_length=3)
    placed_at = models.DateTimeField()
    customer_reference = models.CharField(max_length=200, blank=True)
    customer_name = models.CharField(max_length=200, blank=True)
    customer_email = models.CharField(max_length=254, blank=True)
    shipping_minor = models.BigIntegerField(default=0)
    # Goods that have not reached the customer cannot come back.
    delivered = models.BooleanField(default=True)
    # Counts changes of the facts, so that an intake that read older ones notices.
    facts_version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(Upper("number"), name="order_number_unique_any_case"),
            models.CheckConstraint(
                condition=Q(shipping_minor__gte=0), name="shipping_not_negative"
            ),
        ]
        indexes = [
            models.Index(Upper("customer_email"), name="order_email"),
            models.Index(Upper("customer_name"), name="order_name"),
        ]
        triggers = [guards.kept(), guards.fixed("number", "currency")]

    def __str__(self) -> str:
        return self.number


@pghistory.track(model_name="OrderLineHistory")
class OrderLine(models.Model):
    """One line as sold. `discount_minor` and `tax_minor` are for the whole line."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="lines")
    line_id = models.CharField(max_length=64)
    sku = models.CharField(max_length=100, blank=True)
    description = models.CharField(max_length=500, blank=True)
    quantity = models.PositiveIntegerField()
    unit_price_minor = models.BigIntegerField()
    discount_minor = models.BigIntegerField(default=0)
    # This line's share of a discount on the whole order, allocated when the order was confirmed.
    order_discount_minor = models.BigIntegerField(default=0)
    tax_minor = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "line_id"], name="line_unique_in_order"),
            models.CheckConstraint(condition=Q(quantity__gt=0), name="line_quantity_positive"),
            models.CheckConstraint(
                condition=Q(
                    unit_price_minor__gte=0,
                    discount_minor__gte=0,
                    order_discount_minor__gte=0,
                    tax_minor__gte=0,
                ),
                name="line_amounts_not_negative",
            ),
        ]
        indexes = [models.Index(Upper("sku"), name="line_sku")]
        triggers = [
            guards.kept(),
            guards.fixed("order", "line_id"),
            _sold_facts_fixed(
                "quantity",
                "unit_price_minor",
                "discount_minor",
                "order_discount_minor",
                "tax_minor",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.line_id} {self.description}"

    @property
    def total_minor(self) -> int:
        """What the customer paid for the line, minor units."""
        return line_total(
            quantity=self.quantity,
            unit_price_minor=self.unit_price_minor,
            discount_minor=self.discount_minor,
            order_discount_minor=self.order_discount_minor,
            tax_minor=self.tax_minor,
        )

    @property
    def unit_values_minor(self) -> list[int]:
        """What each unit is worth back, minor units; unit 1 first."""
        return unit_values(self.total_minor, self.quantity)


@pghistory.track(model_name="TenderHistory")
class Tender(models.Model):
    """One captured payment of an order: a card charge, a gift card, cash."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="tenders")
    tender_id = models.CharField(max_length=64)
    provider = models.CharField(max_length=32)
    # What the provider calls the payment; refunds are addressed to it.
    payment = models.CharField(max_length=200)
    label = models.CharField(max_length=200, blank=True)
    amount_minor = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "tender_id"], name="tender_unique_in_order"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="tender_amount_positive"),
        ]
        indexes = [models.Index("provider", "payment", name="tender_payment")]
        triggers = [
            guards.kept(),
            guards.fixed("order", "tender_id"),
            _sold_facts_fixed("provider", "payment", "amount_minor"),
        ]

    def __str__(self) -> str:
        return self.label or f"{self.provider} {self.payment}"


class Balance(models.Model):
    """Captured, reserved and refunded, minor units; gone and held are kept apart."""

    captured_minor = models.BigIntegerField(default=0)
    reserved_minor = models.BigIntegerField(default=0)
    # Confirmed as paid, by us or (`external_minor` of it) outside this system.
    refunded_minor = models.BigIntegerField(default=0)
    external_minor = models.BigIntegerField(default=0)

    class Meta:
        abstract = True

    @property
    def remaining_minor(self) -> int:
        """What may still be given back, minor units."""
        return self.captured_minor - self.reserved_minor - self.refunded_minor


def _balance_checks(prefix: str) -> list[models.BaseConstraint]:
    return [
        models.CheckConstraint(condition=Q(reserved_minor__gte=0), name=f"{prefix}_reserved_gte_0"),
        models.CheckConstraint(
            condition=Q(external_minor__gte=0, refunded_minor__gte=F("external_minor")),
            name=f"{prefix}_refunded_gte_0",
        ),
        models.CheckConstraint(
            condition=Q(captured_minor__gte=F("reserved_minor") + F("refunded_minor")),
            name=f"{prefix}_never_above_captured",
        ),
    ]


@pghistory.track(model_name="OrderBalanceHistory")
class OrderBalance(Balance):
    """The row that is locked before any money of the order is reserved or moved."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="balance")

    class Meta:
        constraints = _balance_checks("order")
        triggers = [guards.kept(), guards.fixed("order")]

    def __str__(self) -> str:
        return f"{self.order_id}: {self.remaining_minor}"


@pghistory.track(model_name="TenderBalanceHistory")
class TenderBalance(Balance):
    """The same per tender. Guarded by the lock on the order's balance."""

    tender = models.OneToOneField(Tender, on_delete=models.PROTECT, related_name="balance")

    class Meta:
        constraints = _balance_checks("tender")
        triggers = [guards.kept(), guards.fixed("tender")]

    def __str__(self) -> str:
        return f"{self.tender_id}: {self.remaining_minor}"


class ExternalRefund(models.Model):
    """Money that went back outside this system. It eats the same balance."""

    class Source(models.TextChoices):
        ORDER_HISTORY = "order_history", _("order history")
        PROVIDER = "provider", _("provider")

    tender = models.ForeignKey(Tender, on_delete=models.PROTECT, related_name="external_refunds")
    reference = models.CharField(max_length=200)
    amount_minor = models.BigIntegerField()
    source = models.CharField(max_length=20, choices=Source.choices)
    recorded_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tender", "reference"], name="external_refund_unique_in_tender"
            ),
            models.CheckConstraint(
                condition=Q(amount_minor__gt=0), name="external_refund_positive"
            ),
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return self.reference
