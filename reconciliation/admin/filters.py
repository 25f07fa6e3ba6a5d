"""The filters of the queue; what is filtered stands in the address."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from reconciliation.models import Mismatch
from returns.queries import key_of

if TYPE_CHECKING:
    Rows = QuerySet[Mismatch, Any]
    Choices = list[tuple[str, Any]]


class StandingFilter(admin.SimpleListFilter):
    """What waits for somebody comes first; what is closed only when it is asked for."""

    title = _("standing")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [
            ("confirm", _("open, for me to confirm")),
            ("proposed", _("open, waits for a second person")),
            ("resolved", _("closed")),
            ("all", _("all")),
        ]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """The same, with “open” in the place of Django's “All”."""
        everything, *others = super().choices(changelist)
        yield {**everything, "display": _("open")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        proposed = Q(status=Mismatch.Status.OPEN, proposed_by__isnull=False)
        narrowed: dict[str | None, Q] = {
            "confirm": proposed & ~Q(proposed_by=request.user.pk),
            "proposed": proposed,
            "resolved": Q(status=Mismatch.Status.RESOLVED),
            "all": Q(),
        }
        return queryset.filter(narrowed.get(self.value(), Q(status=Mismatch.Status.OPEN)))


class AgeFilter(admin.SimpleListFilter):
    title = _("age")
    parameter_name = "age"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [
            ("1", _("older than a day")),
            ("2", _("late: older than two days")),
            ("7", _("older than a week")),
            ("30", _("older than 30 days")),
        ]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        offered = {name for name, _words in self.lookup_choices}
        if self.value() not in offered:
            return queryset
        return queryset.filter(
            opened_at__lt=timezone.now() - timedelta(days=int(self.value() or 0))
        )


class AssigneeFilter(admin.SimpleListFilter):
    title = _("assigned to")
    parameter_name = "assigned"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [("me", _("me")), ("nobody", _("nobody")), ("others", _("others"))]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        mine = Q(assignee=request.user.pk)
        narrowed = {
            "me": mine,
            "nobody": Q(assignee__isnull=True),
            "others": Q(assignee__isnull=False) & ~mine,
        }
        return queryset.filter(narrowed.get(self.value() or "", Q()))


def search(rows: Rows, term: str) -> Rows:
    """By order number, return, number of the item, or any reference or key, each as a whole."""
    references = (
        *("operation__order__number__iexact", "line__refund", "line__payment"),
        *("payment__provider_refund", "payment__tender__payment", "event__event_id"),
        *("entry__entry", "entry__reference", "posting__entry"),
    )
    found = Q()
    for name in references:
        found |= Q(**{name: term})
    if (key := key_of(term)) is not None:
        found |= Q(operation__operation_key=key) | Q(link_to__operation_key=key)
    if (wire_key := _uuid(term)) is not None:
        found |= Q(payment__wire_key=wire_key)
    number = term.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < 19:
        found |= Q(pk=int(number))
    # What has no row of its own is named in the words of the item.
    return rows.filter(found | Q(detail__icontains=term))


def _uuid(term: str) -> UUID | None:
    try:
        return UUID(term)
    except ValueError:
        return None
