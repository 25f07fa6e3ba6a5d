"""Read-only lists of what is stored. Nothing is added, changed or deleted here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from returns.models import IntakeMessage, Order, RefundOperation, RefusedAttempt
from returns.permissions import may

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

admin.site.site_title = "Refund Desk"
admin.site.site_header = "Refund Desk"
# The pages lead here and back; there is no other site to view.
admin.site.site_url = None
admin.site.index_title = "Everything that is stored"


class ReadOnly(ModelAdmin):
    """A list to look at, for whoever may `action`."""

    action = "view_payments"
    list_per_page = 50
    show_full_result_count = False

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.is_authenticated and may(request.user, self.action)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(Order)
class OrderAdmin(ReadOnly):
    list_display = ("number", "customer_name", "currency", "placed_at", "delivered")
    list_filter = ("currency", "delivered")
    search_fields = ("number", "customer_name", "customer_email")
    ordering = ("-pk",)


@admin.register(RefundOperation)
class RefundOperationAdmin(ReadOnly):
    list_display = ("reference", "order", "state", "currency", "amount_minor", "state_changed_at")
    list_filter = ("state", "taken_in_channel", "currency")
    list_select_related = ("order",)
    search_fields = ("order__number", "operation_key__exact")
    ordering = ("-pk",)


@admin.register(IntakeMessage)
class IntakeMessageAdmin(ReadOnly):
    list_display = ("message_id", "channel", "operation", "submitted_by", "joined", "received_at")
    list_filter = ("channel", "joined")
    list_select_related = ("operation", "submitted_by")
    search_fields = ("message_id",)
    ordering = ("-pk",)


@admin.register(RefusedAttempt)
class RefusedAttemptAdmin(ReadOnly):
    list_display = ("at", "verb", "code", "by", "operation", "detail")
    list_filter = ("verb", "code")
    list_select_related = ("by", "operation")
    ordering = ("-pk",)
