"""The fields of the API's JSON: strict in what they read, amounts always as text in major units.

The fields of DRF are generous (they read 1 as "1" and "yes" as true); these are not.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import get_attribute

from returns import money

MOST_NOTE = 2_000

AMOUNT_SCHEMA = {
    "type": "string",
    "pattern": r"^[0-9]{1,15}(\.[0-9]{1,6})?$",
    "description": "Major units as text, with no more decimals than the currency has.",
    "example": "47.84",
}


class Text(serializers.CharField):
    """Text, verbatim. DRF itself refuses the NUL character, which PostgreSQL cannot store."""

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    """A whole number; "1", 1.0 and true are none."""

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class Flag(serializers.BooleanField):
    """True or false; 1 and "yes" are neither."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


@extend_schema_field(AMOUNT_SCHEMA)
class Amount(serializers.Field[int, Any, str, Any]):
    """Minor units from text in major units, in the `currency` of the serializer's context."""

    def to_internal_value(self, data: Any) -> int:
        try:
            return money.parse(data, self.context["currency"])
        except money.NotMoney as error:
            raise serializers.ValidationError(str(error)) from error

    def to_representation(self, value: int) -> str:
        return money.plain(value, self.context["currency"])


def note(most: int = MOST_NOTE) -> Text:
    """An optional free text."""
    return Text(required=False, allow_blank=True, default="", max_length=most)


def version(*, required: bool = False) -> Whole:
    """The version that the decision was made on; a newer one refuses it."""
    return Whole(required=required, min_value=1, max_value=2**31 - 1)


@extend_schema_field(AMOUNT_SCHEMA)
class Money(serializers.CharField):
    """An amount in major units, from a field of minor units.

    The currency is the context's or, without one there, found from the instance along `currency`;
    without any currency an amount means nothing and is null.
    """

    def __init__(self, *, currency: str = "currency", **options: Any) -> None:
        super().__init__(**options)
        self._currency_path = currency.split(".")

    def get_attribute(self, instance: Any) -> str | None:
        minor = super().get_attribute(instance)
        currency = self.context.get("currency") or get_attribute(instance, self._currency_path)
        return None if minor is None or not currency else money.plain(int(minor), currency)


class InOrder(serializers.ListSerializer[Any]):
    """The rows of a reverse relation in the order in which they were written; a page as it is."""

    def to_representation(self, data: Any) -> list[Any]:
        rows = data if isinstance(data, list) else sorted(data.all(), key=lambda row: row.pk)
        return super().to_representation(rows)
