"""What is said when we ourselves break."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.defaults import server_error


def broken(request: HttpRequest) -> HttpResponse:
    """500 as JSON for programs, as a page for people."""
    if not request.path.startswith("/api/"):
        return server_error(request)
    detail = "Something broke on our side. Sending the same request again does no harm."
    return JsonResponse({"code": "broken", "detail": detail}, status=500)
