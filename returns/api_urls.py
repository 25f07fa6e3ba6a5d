"""The endpoints of this app, below /api/v1/."""

from __future__ import annotations

from django.urls import path

from returns import api

urlpatterns = [
    path("orders/<str:number>/", api.OrderView.as_view()),
    path("returns/", api.ReturnsView.as_view()),
    path("returns/<str:key>/", api.ReturnView.as_view()),
    path("returns/<str:key>/inspect/", api.InspectView.as_view()),
    path("returns/<str:key>/reject/", api.RejectView.as_view()),
    path("returns/<str:key>/withdraw/", api.WithdrawView.as_view()),
]
