"""Every refusal as JSON: a stable code, one sentence, and the facts a program needs next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from drf_spectacular.utils import OpenApiResponse
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import exception_handler

from returns.errors import Invalid, RefundDeskError
from returns.request_body import TooLarge


class ErrorSerializer(serializers.Serializer[Any]):
    """A refusal. Depending on the code there are more facts beside these two."""

    code = serializers.CharField()
    detail = serializers.CharField()


class InvalidSerializer(ErrorSerializer):
    """A request that was not understood; `fields` maps the path of a field to its complaints."""

    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()), required=False
    )


_MEANINGS = {
    400: "Not understood whole: the code is invalid, with the fields, or parse_error.",
    401: "No token, or an unknown one.",
    403: "This account may not do this; the code says why.",
    404: "What was named does not exist.",
    409: "The present facts do not allow it; nothing has changed.",
}


def refusals(*statuses: int) -> dict[int, OpenApiResponse]:
    """The refusals of an endpoint for its description; 401 and 403 are always among them."""
    return {
        status: OpenApiResponse(
            InvalidSerializer if status == 400 else ErrorSerializer,
            description=_MEANINGS[status],
        )
        for status in sorted({401, 403, *statuses})
    }


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """The response to an exception raised in an API view; None lets it become a 500."""
    if isinstance(error, Invalid):
        return Response(_invalid(error.detail, error.fields), status=error.status)
    if isinstance(error, RefundDeskError):
        body = {"code": error.code, "detail": error.detail, **error.facts}
        return Response(body, status=error.status)
    if isinstance(error, OperationalError):
        body = {"code": "busy", "detail": "The database is busy. Send the same request again."}
        return Response(body, status=503, headers={"Retry-After": "1"})
    if isinstance(error, RequestDataTooBig):
        # Django's own bound, met when something else reads the body first.
        error = TooLarge()
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, exceptions.ValidationError):
        response.data = _invalid("Some fields need correcting.", error.detail)
    elif isinstance(response.data, dict) and "detail" in response.data:
        detail = response.data["detail"]
        response.data = {"code": getattr(detail, "code", "error"), "detail": str(detail)}
    return response


def _invalid(detail: str, complaints: Any) -> dict[str, Any]:
    fields: dict[str, list[str]] = {}
    for path, sentence in _flat(complaints, ""):
        fields.setdefault(path or "body", []).append(sentence)
    return {"code": Invalid.code, "detail": detail, "fields": fields}


def _flat(complaints: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every complaint with the dotted path of its field, such as items.0.quantity."""
    if isinstance(complaints, dict):
        for name, inner in complaints.items():
            of_all = name == api_settings.NON_FIELD_ERRORS_KEY
            yield from _flat(inner, path if of_all else f"{path}.{name}".lstrip("."))
    elif isinstance(complaints, list | tuple):
        for place, inner in enumerate(complaints):
            nested = isinstance(inner, dict)
            yield from _flat(inner, f"{path}.{place}".lstrip(".") if nested else path)
    else:
        yield path, str(complaints)
