"""The endpoints of this app, below /api/v1/."""

from __future__ import annotations

from django.urls import path

from reconciliation import api

urlpatterns = [
    path("returns/<str:key>/post-again/", api.PostAgainView.as_view()),
    path("mismatches/", api.MismatchesView.as_view()),
    path("mismatches/<int:pk>/resolve/", api.ResolveView.as_view()),
    path("mismatches/<int:pk>/confirm/", api.ConfirmView.as_view()),
    path("mismatches/<int:pk>/turn-down/", api.TurnDownView.as_view()),
]
