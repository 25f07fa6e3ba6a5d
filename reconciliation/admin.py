"""The queue of mismatches and the postings, to look at."""

from __future__ import annotations

from django.contrib import admin

from reconciliation.models import ErpPosting, Mismatch
from returns import money
from returns.admin import ReadOnly


@admin.register(Mismatch)
class MismatchAdmin(ReadOnly):
    action = "view_mismatches"
    list_display = ("__str__", "status", "at_stake", "assignee", "opened_at", "resolution")
    list_filter = ("status", "kind", "currency", "assignee")
    list_select_related = ("operation", "assignee")
    search_fields = ("fingerprint", "detail", "operation__order__number")
    ordering = ("-status", "opened_at", "pk")

    @admin.display(description="at stake", ordering="at_stake_minor")
    def at_stake(self, mismatch: Mismatch) -> str:
        """The amount in question, for people."""
        if not mismatch.currency:
            return "—"
        return money.shown(mismatch.at_stake_minor, mismatch.currency)


@admin.register(ErpPosting)
class ErpPostingAdmin(ReadOnly):
    action = "view_mismatches"
    list_display = ("operation", "state", "currency", "amount_minor", "entry", "attention")
    list_filter = ("state", "attention", "currency")
    list_select_related = ("operation",)
    search_fields = ("entry", "operation__order__number")
    ordering = ("-pk",)
