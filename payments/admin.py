"""Read-only lists of the money."""

from __future__ import annotations

from django.contrib import admin

from payments.models import Approval, PaymentAttempt, PaymentTask, ProviderEvent
from returns.admin import ReadOnly


@admin.register(Approval)
class ApprovalAdmin(ReadOnly):
    list_display = ("operation", "approved_by", "currency", "amount_minor", "approved_at")
    list_filter = ("currency",)
    list_select_related = ("operation", "approved_by")
    ordering = ("-pk",)


@admin.register(PaymentTask)
class PaymentTaskAdmin(ReadOnly):
    list_display = (
        *("wire_key", "operation", "provider", "state", "currency", "amount_minor"),
        *("provider_refund", "attention", "next_look_at"),
    )
    list_filter = ("state", "provider", "currency", "attention")
    list_select_related = ("operation",)
    search_fields = ("wire_key__exact", "provider_refund", "operation__order__number")
    ordering = ("-pk",)


@admin.register(PaymentAttempt)
class PaymentAttemptAdmin(ReadOnly):
    list_display = ("at", "row", "purpose", "step", "outcome", "worker", "detail")
    list_filter = ("purpose", "step", "outcome")
    list_select_related = ("row",)
    ordering = ("-pk",)


@admin.register(ProviderEvent)
class ProviderEventAdmin(ReadOnly):
    list_display = ("event_id", "provider", "kind", "standing", "occurred_at", "received_at")
    list_filter = ("standing", "provider", "kind")
    search_fields = ("event_id",)
    ordering = ("-pk",)
