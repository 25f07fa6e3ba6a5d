"""The JSON of approving and paying: what is accepted, and what is answered."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from payments.models import AttemptRow, BatchItem, ProviderEvent
from payments.outcomes import Purpose
from returns import money
from returns.fields import Amount, InOrder, Text, note, version
from returns.request_body import Body
from returns.serializers import OperationPaymentSerializer
from returns.states import OperationState, TaskState


class TenderPartBody(Body):
    tender = Text(max_length=64)
    amount = Amount()


def _parts(parts: list[dict[str, Any]]) -> None:
    names = [part["tender"] for part in parts]
    if len(set(names)) != len(names):
        raise serializers.ValidationError("Name each tender once.")


class UnpaidBody(Body):
    reason = Text(max_length=2_000)


class HandOverBody(Body):
    """One step of handing money over: it begins, it is done, or it does not happen after all."""

    step = serializers.ChoiceField(["start", "confirm", "abandon"])
    reference = Text(
        max_length=200, default="", help_text="Of the receipt or transfer; needed to confirm."
    )
    reason = Text(max_length=2_000, default="", help_text="Needed to abandon.")


class ApprovalBody(Body):
    """A yes to exactly this amount, on these tenders or on the first that have it left.

    There is no default amount. Give the operation's currency as context.
    """

    amount = Amount()
    tenders = serializers.ListField(
        child=TenderPartBody(),
        required=False,
        allow_empty=False,
        max_length=100,
        validators=[_parts],
    )
    note = note()
    version = version()
    seen_remaining = Amount(
        required=False, help_text="What the order had left when the decision was made."
    )


class BatchDecisionBody(Body):
    """A yes to one return as it was seen."""

    name = Text(max_length=40, help_text="The return, by reference (R-12) or permanent key.")
    amount = Text(max_length=24, help_text="Major units in the currency of its order.")
    version = version(required=True)


class BatchBody(Body):
    """Decisions that are carried out one by one. The same token is the same batch."""

    token = serializers.UUIDField()
    returns = serializers.ListField(child=BatchDecisionBody(), allow_empty=False, max_length=500)


class BatchItemSerializer(serializers.Serializer[Any]):
    """One decision, and what became of it; `code` and `words` say why it was refused."""

    name = serializers.CharField(source="operation.reference")
    operation_key = serializers.UUIDField(source="operation.operation_key")
    amount = serializers.SerializerMethodField()
    currency = serializers.CharField(source="operation.currency")
    version = serializers.IntegerField()
    outcome = serializers.ChoiceField(BatchItem.Outcome.choices)
    code = serializers.CharField()
    words = serializers.CharField()
    state = serializers.ChoiceField(OperationState.choices, source="operation.state")

    def get_amount(self, item: BatchItem) -> str:
        return money.plain(item.amount_minor, item.operation.currency)


class CountsSerializer(serializers.Serializer[Any]):
    waiting = serializers.IntegerField()
    refused = serializers.IntegerField()
    owed = serializers.IntegerField(help_text="Approved; another approval is needed.")
    for_a_person = serializers.IntegerField(
        help_text="Reserved; a person hands the money over, or must look at the payment."
    )
    on_its_way = serializers.IntegerField()
    unknown = serializers.IntegerField()
    paid = serializers.IntegerField()
    ended = serializers.IntegerField(help_text="Rejected or withdrawn since.")


class BatchSerializer(serializers.Serializer[Any]):
    token = serializers.UUIDField()
    opened_at = serializers.DateTimeField()
    counts = CountsSerializer()
    returns = BatchItemSerializer(many=True)


class ProviderEventsQuery(Body):
    standing = serializers.ChoiceField(ProviderEvent.Standing.choices, required=False)


class ProviderEventSerializer(serializers.Serializer[Any]):
    """An event as the provider sent it, and what became of it."""

    id = serializers.IntegerField()
    provider = serializers.CharField()
    event_id = serializers.CharField()
    kind = serializers.CharField()
    standing = serializers.ChoiceField(ProviderEvent.Standing.choices)
    note = serializers.CharField()
    body = serializers.CharField()
    occurred_at = serializers.DateTimeField()
    received_at = serializers.DateTimeField()
    applied_at = serializers.DateTimeField(allow_null=True)


class PaymentsQuery(Body):
    state = serializers.ChoiceField(TaskState.choices, required=False)


class PaymentSerializer(OperationPaymentSerializer):
    """A payment and the return it belongs to."""

    operation = serializers.UUIDField(source="operation.operation_key")
    reference = serializers.CharField(source="operation.reference")
    order = serializers.CharField(source="operation.order.number")


class AttemptSerializer(serializers.Serializer[Any]):
    """One step of one call: written before it as started, after it as ended.

    A start without an end is a call whose worker never came back.
    """

    call = serializers.IntegerField(source="lease")
    step = serializers.ChoiceField(AttemptRow.Step.choices)
    purpose = serializers.ChoiceField([(purpose.value, purpose.value) for purpose in Purpose])
    worker = serializers.CharField()
    outcome = serializers.CharField()
    detail = serializers.CharField()
    at = serializers.DateTimeField()

    class Meta:
        list_serializer_class = InOrder


class PaymentDetailSerializer(PaymentSerializer):
    """A payment and every call about it."""

    attempts = AttemptSerializer(many=True)
