"""The JSON of mismatches: what is accepted, and what is answered."""

from __future__ import annotations

from rest_framework import serializers

from reconciliation.models import Mismatch
from reconciliation.resolving import MOST_CHARACTERS, RESOLUTIONS
from returns.fields import Money, Text
from returns.request_body import Body


class MismatchesQuery(Body):
    status = serializers.ChoiceField(Mismatch.Status.choices, required=False)
    kind = serializers.ChoiceField(Mismatch.Kind.choices, required=False)


class ResolutionBody(Body):
    """How a mismatch is closed, and why. `operation`: the key or reference to link it to."""

    resolution = serializers.ChoiceField(RESOLUTIONS)
    reason = Text(max_length=MOST_CHARACTERS)
    operation = Text(required=False, max_length=40)
    # A link, a file's name, the number of an entry or a ticket.
    evidence = Text(required=False, allow_blank=True, max_length=MOST_CHARACTERS)


class ConfirmationBody(Body):
    """`proposed_at` as it was read: what is confirmed is the proposal of that moment."""

    proposed_at = serializers.DateTimeField()


class TurningDownBody(Body):
    reason = Text(max_length=MOST_CHARACTERS)


class MismatchSerializer(serializers.Serializer[Mismatch]):
    """Something a person must close. `at_stake` is null where no amount is known.

    While it is open, `resolution`, `reason` and `evidence` are what `proposed_by` proposes.
    """

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
    evidence = serializers.CharField()
    proposed_by = serializers.CharField(
        source="proposed_by.username", allow_null=True, default=None
    )
    proposed_at = serializers.DateTimeField(allow_null=True)
    resolved_by = serializers.CharField(
        source="resolved_by.username", allow_null=True, default=None
    )
    resolved_at = serializers.DateTimeField(allow_null=True)
