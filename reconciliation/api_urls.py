"""The endpoints of this app, below /api/v1/."""

from __future__ import annotations

from django.urls import path

from reconciliation import api

urlpatterns = [
    path("mismatches/", api.MismatchesView.as_view()),
    path("mismatches/<int:pk>/resolve/", api.ResolveView.as_view()),
]
