"""Every refusal as JSON: a stable code, one sentence, and the facts a program needs next."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler

from returns.errors import RefundDeskError


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """The response to an exception raised in an API view; None lets it become a 500."""
    if isinstance(error, RefundDeskError):
        body = {"code": error.code, "detail": error.detail, **error.facts}
        return Response(body, status=error.status)
    if isinstance(error, OperationalError):
        body = {"code": "busy", "detail": "The database is busy. Send the same request again."}
        return Response(body, status=503, headers={"Retry-After": "1"})
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, exceptions.ValidationError):
        response.data = {
            "code": "invalid",
            "detail": "Some fields need correcting.",
            "fields": error.detail,
        }
    elif isinstance(response.data, dict) and "detail" in response.data:
        detail = response.data["detail"]
        response.data = {"code": getattr(detail, "code", "error"), "detail": str(detail)}
    return response
