"""The endpoints of this app, below /api/v1/."""

from __future__ import annotations

from django.urls import path

from payments import api, batches_api, webhooks

urlpatterns = [
    path("returns/<str:key>/approve/", api.ApproveView.as_view()),
    path("approvals/batches/", batches_api.BatchesView.as_view()),
    path("approvals/batches/<uuid:token>/", batches_api.BatchView.as_view()),
    path("payments/", api.PaymentsView.as_view()),
    path("payments/<int:pk>/", api.PaymentView.as_view()),
    path("payments/<int:pk>/query/", api.AskProviderView.as_view()),
    path("payments/<int:pk>/hand-over/", api.HandOverView.as_view()),
    path("payments/<int:pk>/declare-unpaid/", api.DeclareUnpaidView.as_view()),
    path("provider-events/", api.ProviderEventsView.as_view()),
    path("provider-events/<int:pk>/replay/", api.ReplayView.as_view()),
    path("webhooks/<str:provider>/", webhooks.endpoint),
]
