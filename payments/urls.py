"""The pages of this app."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from payments.views.approvals import approvals, approve_return, read_back
from payments.views.batches import approve_chosen, batch
from payments.views.handover import abandon, confirm, hand_over, start
from payments.views.payments import ask, payments, unpaid

urlpatterns: list[URLPattern | URLResolver] = [
    path("approvals/", approvals, name="approvals"),
    path("approvals/batches/", approve_chosen, name="approve_chosen"),
    path("approvals/batches/<uuid:token>/", batch, name="batch"),
    path("returns/<str:reference>/approve/", approve_return, name="approve"),
    path("returns/<str:reference>/approve/read-back/", read_back, name="read_back"),
    path("payments/", payments, name="payments"),
    path("payments/ask/", ask, name="ask_provider"),
    path("payments/unpaid/", unpaid, name="declare_unpaid"),
    path("payments/<int:task_id>/hand-over/", hand_over, name="hand_over"),
    path("payments/<int:task_id>/hand-over/start/", start, name="hand_over_start"),
    path("payments/<int:task_id>/hand-over/confirm/", confirm, name="hand_over_confirm"),
    path("payments/<int:task_id>/hand-over/abandon/", abandon, name="hand_over_abandon"),
]
