"""Read-only lists of the money."""

from __future__ import annotations

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from payments import webhooks
from payments.models import Approval, PaymentAttempt, PaymentTask, ProviderEvent
from returns.admin import ReadOnly
from returns.errors import RefundDeskError
from returns.permissions import may


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
    list_display = ("event_id", "provider", "kind", "standing", "note", "received_at")
    list_filter = ("standing", "provider", "kind")
    search_fields = ("event_id",)
    ordering = ("-pk",)
    actions = ("replay",)

    @admin.action(description="Read again and apply", permissions=["replay"])
    def replay(self, request: HttpRequest, events: QuerySet[ProviderEvent]) -> None:
        """Each event by itself: one that is still not understood stops no other."""
        by = User.objects.get(username=request.user.get_username())
        for event in events.order_by("pk"):
            try:
                replayed = webhooks.replay(event_id=event.pk, by=by)
            except RefundDeskError as error:
                self.message_user(request, f"{event}: {error.detail}", messages.ERROR)
            else:
                self.message_user(request, f"{event}: {replayed.note or replayed.standing}")

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, User) and may(request.user, "replay_event")
