"""The pages of this app."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from reconciliation.views.reconciliation import (
    ask_for_run,
    reconciliation,
    reconciliation_run,
    send_settlement,
    settlement_import,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("reconciliation/", reconciliation, name="reconciliation"),
    path("reconciliation/run/", ask_for_run, name="ask_for_run"),
    path("reconciliation/settlement/", send_settlement, name="send_settlement"),
    path("reconciliation/runs/<int:pk>/", reconciliation_run, name="reconciliation_run"),
    path("reconciliation/imports/<int:pk>/", settlement_import, name="settlement_import"),
]
