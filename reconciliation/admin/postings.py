"""The credits, to look at."""

from __future__ import annotations

from django.contrib import admin

from reconciliation.models import ErpPosting
from returns.admin import ReadOnly


@admin.register(ErpPosting)
class ErpPostingAdmin(ReadOnly):
    action = "view_mismatches"
    list_display = ("operation", "state", "currency", "amount_minor", "entry", "attention")
    list_filter = ("state", "attention", "currency")
    list_select_related = ("operation",)
    search_fields = ("entry", "operation__order__number")
    ordering = ("-pk",)
