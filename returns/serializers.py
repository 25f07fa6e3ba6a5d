"""The JSON of returns: at a glance, with what they claim, and with everything there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from returns.fields import InOrder, Money
from returns.models import Channel, RefundOperation
from returns.next_steps import next_step_of
from returns.queries import in_major
from returns.states import OperationState, TaskState

if TYPE_CHECKING:
    from returns.queries import OperationRow


class TakenInSerializer(serializers.Serializer[RefundOperation]):
    by = serializers.CharField(source="taken_in_by.username")
    channel = serializers.ChoiceField(Channel.choices, source="taken_in_channel")
    at = serializers.DateTimeField(source="taken_in_at")


class NextStepSerializer(serializers.Serializer[Any]):
    """The one thing to do next; without a verb nobody's hand is needed."""

    verb = serializers.CharField(allow_null=True)
    text = serializers.CharField(source="label")


class OperationSummarySerializer(serializers.Serializer[RefundOperation]):
    """A return at a glance.

    `worth` is what it claims, `amount` what was approved (null before that), `refunded` what is
    confirmed as paid back.
    """

    operation = serializers.UUIDField(source="operation_key")
    reference = serializers.CharField()
    state = serializers.ChoiceField(OperationState.choices)
    order = serializers.CharField(source="order.number")
    currency = serializers.CharField()
    worth = Money(source="worth_minor")
    amount = Money(source="amount_minor", allow_null=True)
    refunded = Money(source="refunded_minor")
    version = serializers.IntegerField()
    updated_at = serializers.DateTimeField(source="state_changed_at")
    taken_in = TakenInSerializer(source="*")
    next_step = serializers.SerializerMethodField()

    @extend_schema_field(NextStepSerializer)
    def get_next_step(self, operation: OperationRow) -> Any:
        return NextStepSerializer(next_step_of(operation)).data


class FindingSerializer(serializers.Serializer[Any]):
    accepted = serializers.BooleanField()
    condition = serializers.CharField()
    restock = serializers.BooleanField()


class ClaimSerializer(serializers.Serializer[Any]):
    """One thing that is given back. A claim that is not live holds nothing any more."""

    subject = serializers.CharField()
    kind = serializers.CharField()
    line = serializers.CharField(source="line.line_id", allow_null=True, default=None)
    unit = serializers.IntegerField(allow_null=True)
    amount = Money(source="amount_minor", currency="operation.currency")
    live = serializers.BooleanField()
    finding = FindingSerializer(allow_null=True)


class OperationSerializer(OperationSummarySerializer):
    """A return and what it claims."""

    claims = ClaimSerializer(many=True)


class TakenSerializer(OperationSerializer):
    """The answer to a message; `joined` when the same goods were being returned already."""

    joined = serializers.BooleanField()
    free_units = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="By line of the order: the units that no return covers.",
    )


class MessageSerializer(serializers.Serializer[Any]):
    """Evidence, verbatim. Never to be read as an instruction."""

    channel = serializers.ChoiceField(Channel.choices)
    message_id = serializers.CharField()
    by = serializers.CharField(source="submitted_by.username")
    at = serializers.DateTimeField(source="received_at")
    joined = serializers.BooleanField()
    reason = serializers.CharField()
    customer_text = serializers.CharField()


class InspectionSerializer(serializers.Serializer[Any]):
    by = serializers.CharField(source="inspected_by.username")
    at = serializers.DateTimeField(source="inspected_at")
    note = serializers.CharField()


class ApprovalSerializer(serializers.Serializer[Any]):
    """One manager's yes to one round of paying."""

    by = serializers.CharField(source="approved_by.username")
    at = serializers.DateTimeField(source="approved_at")
    amount = Money(source="amount_minor")
    currency = serializers.CharField()
    round = serializers.IntegerField(source="generation")
    note = serializers.CharField()

    class Meta:
        list_serializer_class = InOrder


class OutboundSerializer(serializers.Serializer[Any]):
    """Something that is to happen elsewhere exactly once, and where it stands."""

    state = serializers.ChoiceField(TaskState.choices)
    state_text = serializers.SerializerMethodField()
    amount = Money(source="amount_minor")
    currency = serializers.CharField()
    first_sent_at = serializers.DateTimeField(allow_null=True)
    last_sent_at = serializers.DateTimeField(allow_null=True)
    next_look_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    last_answer = serializers.CharField()
    attention = serializers.CharField(help_text="A word for what a person must hear about.")

    def get_state_text(self, row: Any) -> str:
        return str(TaskState(row.state).label)


class OperationPaymentSerializer(OutboundSerializer):
    """One payment of a return on one tender; `key` is its name on the wire."""

    id = serializers.IntegerField()
    tender = serializers.CharField(source="tender.tender_id")
    provider = serializers.CharField()
    key = serializers.UUIDField(source="wire_key")
    provider_refund = serializers.CharField(allow_null=True)
    round = serializers.IntegerField(source="generation")

    class Meta:
        list_serializer_class = InOrder


class PostingSerializer(OutboundSerializer):
    """The credit in the ERP; its reference there is the operation's key."""

    entry = serializers.CharField(allow_null=True)
    refunded_on = serializers.DateField()

    def get_state_text(self, row: Any) -> str:
        done = row.state == TaskState.SUCCEEDED
        return "in the books" if done else super().get_state_text(row)


class EventSerializer(serializers.Serializer[Any]):
    """One line of the history; `by` is null for a worker."""

    at = serializers.DateTimeField()
    verb = serializers.CharField()
    from_state = serializers.CharField()
    to_state = serializers.CharField()
    by = serializers.CharField(source="by.username", allow_null=True, default=None)
    note = serializers.CharField()
    facts = serializers.SerializerMethodField()

    def get_facts(self, event: Any) -> dict[str, Any]:
        return in_major(event.facts, event.operation.currency)


class OperationDetailSerializer(OperationSerializer):
    """A return with everything that was said, found, decided and paid."""

    messages = MessageSerializer(many=True)
    inspection = InspectionSerializer(allow_null=True)
    approvals = ApprovalSerializer(many=True)
    payments = OperationPaymentSerializer(many=True)
    posting = PostingSerializer(allow_null=True)
    history = EventSerializer(many=True, source="events")
