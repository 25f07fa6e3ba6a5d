"""The JSON of an order: its balances and, unit by unit, who claims it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from returns.fields import Money
from returns.models import Channel, Order, OrderBalance, RefundOperation, Tender
from returns.queries import LineUnits, UnitFacts, units_of
from returns.states import OperationState


class CustomerSerializer(serializers.Serializer[Order]):
    reference = serializers.CharField(source="customer_reference", required=False)
    name = serializers.CharField(source="customer_name", required=False)
    email = serializers.CharField(source="customer_email", required=False)


class BalanceSerializer(serializers.Serializer[OrderBalance]):
    """What was captured, what is held for refunds under way, what is confirmed as paid back."""

    captured = Money(source="captured_minor")
    reserved = Money(source="reserved_minor")
    refunded = Money(source="refunded_minor")
    refundable = Money(source="remaining_minor")


class HolderSerializer(serializers.Serializer[RefundOperation]):
    """The return that a unit belongs to."""

    operation = serializers.UUIDField(source="operation_key")
    reference = serializers.CharField()
    state = serializers.ChoiceField(OperationState.choices)
    channel = serializers.ChoiceField(Channel.choices, source="taken_in_channel")
    taken_in_at = serializers.DateTimeField()


class UnitSerializer(serializers.Serializer[UnitFacts]):
    unit = serializers.IntegerField()
    value = Money(source="value_minor")
    claimed_by = HolderSerializer(source="operation", allow_null=True)


class LineSerializer(serializers.Serializer[LineUnits]):
    id = serializers.CharField(source="line.line_id")
    sku = serializers.CharField(source="line.sku")
    description = serializers.CharField(source="line.description")
    quantity = serializers.IntegerField(source="line.quantity")
    unit_price = Money(source="line.unit_price_minor")
    discount = Money(source="line.discount_minor")
    order_discount = Money(source="line.order_discount_minor")
    tax = Money(source="line.tax_minor")
    total = Money(source="line.total_minor")
    units = UnitSerializer(many=True)


class TenderSerializer(serializers.Serializer[Tender]):
    id = serializers.CharField(source="tender_id")
    provider = serializers.CharField()
    payment = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    amount = Money(source="amount_minor")
    balance = BalanceSerializer()


class OrderSerializer(serializers.Serializer[Order]):
    """An order with its balances and, unit by unit, who claims it.

    Give the order's currency as context.
    """

    number = serializers.CharField()
    currency = serializers.CharField()
    placed_at = serializers.DateTimeField()
    customer = CustomerSerializer(source="*")
    lines = serializers.SerializerMethodField()
    shipping = Money(source="shipping_minor")
    tenders = TenderSerializer(many=True)
    delivered = serializers.BooleanField()
    balance = BalanceSerializer()

    @extend_schema_field(LineSerializer(many=True))
    def get_lines(self, order: Order) -> Any:
        line = LineSerializer(context=self.context)
        return [line.to_representation(entry) for entry in units_of(order)]
