"""Every address, by the app that owns its verb."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

from config.api_docs import api_docs
from config.health import MetricsView, healthz, readyz
from returns.api import UnknownAddressView

handler404 = "config.failures.missing"
handler500 = "config.failures.broken"

APPS = ("returns", "payments", "reconciliation")

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", MetricsView.as_view()),
    path("admin/", admin.site.urls),
    path("api/v1/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/v1/docs/", api_docs, name="api_docs"),
    *(path("api/v1/", include(f"{app}.api_urls")) for app in APPS),
    path("api/v1/<path:rest>/", UnknownAddressView.as_view()),
    *(path("", include(f"{app}.urls")) for app in APPS),
]
