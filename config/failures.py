"""What is said when we ourselves break, and when an address leads nowhere."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.defaults import page_not_found, server_error


def broken(request: HttpRequest) -> HttpResponse:
    """500 as JSON for programs, as a page for people."""
    if not request.path.startswith("/api/"):
        return server_error(request)
    detail = "Something broke on our side. Sending the same request again does no harm."
    return JsonResponse({"code": "broken", "detail": detail}, status=500)


def missing(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404 as JSON for programs, as a page for people."""
    if not request.path.startswith("/api/"):
        return page_not_found(request, exception)
    detail = f"There is no {request.path}."
    return JsonResponse({"code": "not_found", "detail": detail}, status=404)
