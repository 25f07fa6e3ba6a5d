"""The JSON of mismatches: what is accepted, and what is answered."""

from __future__ import annotations

from rest_framework import serializers

from reconciliation.models import Mismatch
from returns.fields import Money, Text
from returns.request_body import Body

# The software's own resolution is not a person's to give.
RESOLUTIONS = [
    choice for choice in Mismatch.Resolution.choices if choice[0] != Mismatch.Resolution.RIGHTED
]


class MismatchesQuery(Body):
    status = serializers.ChoiceField(Mismatch.Status.choices, required=False)
    kind = serializers.ChoiceField(Mismatch.Kind.choices, required=False)


class ResolutionBody(Body):
    """How a mismatch is closed, and why. `operation`: the key or reference to link it to."""

    resolution = serializers.ChoiceField(RESOLUTIONS)
    reason = Text(max_length=2_000)
    operation = Text(required=False, max_length=40)


class MismatchSerializer(serializers.Serializer[Mismatch]):
    """Something a person must close. `at_stake` is null where no amount is known."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(Mismatch.Kind.choices)
    kind_text = serializers.CharField(source="get_kind_display")
    status = serializers.ChoiceField(Mismatch.Status.choices)
    operation = serializers.UUIDField(
        source="operation.operation_key", allow_null=True, default=None
    )
    reference = serializers.CharField(source="operation.reference", allow_null=True, default=None)
    order = serializers.CharField(source="operation.order.number", allow_null=True, default=None)
    payment = serializers.IntegerField(source="payment_id", allow_null=True)
    at_stake = Money(source="at_stake_minor", allow_null=True)
    currency = serializers.CharField()
    detail = serializers.CharField()
    opened_at = serializers.DateTimeField()
    assignee = serializers.CharField(source="assignee.username", allow_null=True, default=None)
    resolution = serializers.CharField()
    reason = serializers.CharField()
    resolved_by = serializers.CharField(
        source="resolved_by.username", allow_null=True, default=None
    )
    resolved_at = serializers.DateTimeField(allow_null=True)
