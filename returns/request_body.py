"""Reading what a program sends: every byte must be understood, or the request is refused.

The fields that a body is made of are in `returns.fields`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from django.http import QueryDict
from rest_framework import serializers, status
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser

# The largest honest request is an order of 2000 lines.
MOST_BYTES = 2 * 1024 * 1024


class TooLarge(APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"
    default_detail = f"A request has at most {MOST_BYTES} bytes."


class StrictJSONParser(JSONParser):
    """JSON without repeated names, NaN, half characters or endless nesting."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        raw = stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise TooLarge
        try:
            body = json.loads(
                raw.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant
            )
            # Half a surrogate pair can be escaped in JSON but neither be stored nor sent back.
            json.dumps(body, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise ParseError("The body is not JSON that can be understood whole.") from error
        return body


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name is given twice")
    return names


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class Body(serializers.Serializer[Any]):
    """A JSON object; a name that is not declared is refused, because it may be a misspelt one."""

    def to_internal_value(self, data: Any) -> Any:
        names = data if isinstance(data, Mapping) else {}
        unknown = {name: ["There is no such field."] for name in names if name not in self.fields}
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            known: Any = error.detail
            raise serializers.ValidationError({**known, **unknown}) from error
        if unknown:
            raise serializers.ValidationError(unknown)
        return values


def read(body: type[Body], data: Any, **context: Any) -> dict[str, Any]:
    """The validated fields. Raises ValidationError naming every field that is wrong."""
    serializer = body(data=data, context=context)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def read_query(body: type[Body], query: QueryDict, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The same for a query string; empty parameters count as not given."""
    given = {name: value for name, value in query.items() if value and name not in but}
    return read(body, given)
