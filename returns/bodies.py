"""What may be asked of orders and returns, as JSON."""

from __future__ import annotations

from rest_framework import serializers

from returns.fields import AMOUNT_SCHEMA, Amount, Flag, Text, Whole, note, version
from returns.models import Channel
from returns.order_facts import MOST_UNITS_A_LINE
from returns.request_body import Body
from returns.states import OperationState

MOST_MESSAGE = 100_000


class CustomerBody(Body):
    reference = Text(required=False, allow_blank=True, max_length=200)
    name = Text(required=False, allow_blank=True, max_length=200)
    email = Text(required=False, allow_blank=True, max_length=254)


class OrderLineBody(Body):
    """A line as sold. `discount` and `tax` are for the whole line."""

    id = Text(max_length=64)
    sku = Text(required=False, max_length=100)
    description = Text(required=False, max_length=500)
    quantity = Whole(min_value=1)
    unit_price = Amount()
    discount = Amount(required=False)
    tax = Amount(required=False)


class TenderBody(Body):
    """One captured payment; `payment` is what the provider calls it."""

    id = Text(max_length=64)
    provider = Text(max_length=32)
    payment = Text(max_length=200)
    amount = Amount()
    label = Text(required=False, max_length=200)  # type: ignore[assignment]


class PastRefundBody(Body):
    """Money that had gone back on a tender before the order was sent here."""

    tender = Text(max_length=64)
    reference = Text(max_length=200)
    amount = Amount()


class OrderBody(Body):
    """An order as sold: lines and shipping, less the discount, make exactly the tenders."""

    # Only for the API's document: `order_body` does the reading, for imports as well.

    number = Text(required=False, max_length=64)
    currency = Text(min_length=3, max_length=3)
    placed_at = serializers.DateTimeField()
    customer = CustomerBody(required=False)
    lines = OrderLineBody(many=True)
    shipping = Amount(required=False)
    discount = Amount(required=False, help_text="A discount on the whole order.")
    tenders = TenderBody(many=True)
    delivered = Flag(required=False, default=True)
    past_refunds = PastRefundBody(many=True, required=False)


class ItemBody(Body):
    """Units of a line: numbered ones, or the first `quantity` of them."""

    line = Text(max_length=64)
    quantity = Whole(required=False, min_value=1)
    units = serializers.ListField(
        child=Whole(min_value=1), required=False, allow_empty=False, max_length=MOST_UNITS_A_LINE
    )


class GoodwillBody(Body):
    """An amount beyond the goods, under a case reference."""

    case = Text(max_length=100)
    amount = Text(max_length=24, help_text=AMOUNT_SCHEMA["description"])


class ReturnBody(Body):
    """One message: what comes back of which order, by which channel."""

    channel = serializers.ChoiceField(Channel.choices)
    message_id = Text(max_length=200)
    order = Text(max_length=64)
    items = serializers.ListField(child=ItemBody(), required=False, default=list, max_length=2_000)
    shipping = Flag(required=False, default=False)
    goodwill = GoodwillBody(required=False, allow_null=True, default=None)
    additional = Flag(required=False, default=False)
    reason = note()
    customer_text = note(most=MOST_MESSAGE)


class FindingBody(Body):
    line = Text(max_length=64)
    unit = Whole(min_value=1, max_value=MOST_UNITS_A_LINE)
    condition = note(most=100)
    restock = Flag(required=False, default=False)


def _findings() -> serializers.ListField:
    return serializers.ListField(
        child=FindingBody(), required=False, default=list, max_length=MOST_UNITS_A_LINE
    )


class InspectionBody(Body):
    """What was found about every unit of a return."""

    accepted = _findings()
    rejected = _findings()
    note = note()
    version = version()


class RejectionBody(Body):
    reason = Text(max_length=2_000)
    version = version()


class WithdrawalBody(Body):
    reason = note()
    version = version()


class ReturnsQuery(Body):
    state = serializers.ChoiceField(OperationState.choices, required=False)
    order = Text(required=False, max_length=64)
    updated_since = serializers.DateTimeField(required=False)
