"""The queue of mismatches: a list to choose from, and a page on which one item is decided."""

from __future__ import annotations

import logging
from copy import copy
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from reconciliation import casefile, export, queue, resolving
from reconciliation.admin import filters, page, rows
from reconciliation.models import Mismatch
from returns import ages, money, spreadsheets
from returns.admin import ReadOnly
from returns.errors import RefundDeskError
from returns.permissions import may
from returns.views.staff import user_of

log = logging.getLogger(__name__)

TEMPLATES = "admin/reconciliation/mismatch"
Rows = QuerySet[Mismatch, Any]


@admin.register(Mismatch)
class MismatchAdmin(ReadOnly):
    """Nothing is added, changed or deleted here but by the verbs of `resolving`."""

    action = "view_mismatches"
    list_display = ("item", "at_stake", "age", "order", "reference", "assigned_to", "standing")
    list_filter = (
        *(filters.StandingFilter, filters.AgeFilter, filters.AssigneeFilter),
        *("currency", "kind"),
    )
    show_facets = admin.ShowFacets.NEVER
    search_fields = ("detail",)
    search_help_text = _("Order, return, number of the item, any reference or key.")
    actions = ("take", "ask_again", "post_again", "accept")

    class Media:
        css = {"all": ("mismatch.css",)}
        js = ("queue.js",)

    # The list.

    def get_queryset(self, request: HttpRequest) -> Rows:
        return queue.items()

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return queue.OLDEST_AND_LARGEST_FIRST

    def get_search_results(
        self, request: HttpRequest, queryset: Rows, search_term: str
    ) -> tuple[Rows, bool]:
        term = search_term.strip()
        return filters.search(queryset, term) if term else queryset, False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return super().changelist_view(
            request,
            {
                **(extra_context or {}),
                "title": gettext("Mismatches"),
                "is_nav_sidebar_enabled": False,
            },
        )

    @admin.display(description=_("item"), ordering="kind")
    def item(self, mismatch: Mismatch) -> str:
        return f"#{mismatch.pk} {mismatch.get_kind_display()}"

    @admin.display(description=_("at stake"), ordering="at_stake_minor")
    def at_stake(self, mismatch: Mismatch) -> str:
        """The amount in question, for people."""
        if not mismatch.currency:
            return "—"
        return money.shown(mismatch.at_stake_minor, mismatch.currency)

    @admin.display(description=_("age"), ordering="opened_at")
    def age(self, mismatch: Mismatch) -> str | SafeString:
        """How long it has been open, with the word "late" past its target."""
        now = mismatch.resolved_at or timezone.now()
        words = ages.in_words(mismatch.opened_at, now)
        if not queue.is_late(mismatch, now):
            return words
        return format_html('{} <span class="tag tag-doubt">{}</span>', words, gettext("late"))

    @admin.display(description=_("order"), ordering="operation__order__number")
    def order(self, mismatch: Mismatch) -> str:
        return mismatch.operation.order.number if mismatch.operation else "—"

    @admin.display(description=_("reference"), ordering="operation")
    def reference(self, mismatch: Mismatch) -> str:
        """Our name for it, or else the one that the other side has given it."""
        if mismatch.operation:
            return mismatch.operation.reference
        line, entry = mismatch.line, mismatch.entry
        return line.refund if line else entry.entry if entry else "—"

    @admin.display(description=_("assigned to"), ordering="assignee__username")
    def assigned_to(self, mismatch: Mismatch) -> str:
        return mismatch.assignee.username if mismatch.assignee else "—"

    @admin.display(description=_("standing"))
    def standing(self, mismatch: Mismatch) -> SafeString:
        """Open, proposed or closed: never by colour alone."""
        if mismatch.is_proposed:
            words = gettext("proposed by %(who)s") % {"who": mismatch.proposed_by}
            return format_html('<span class="tag tag-doubt">{}</span>', words)
        if mismatch.is_open:
            return format_html('<span class="tag">{}</span>', gettext("open"))
        words = mismatch.get_resolution_display()
        return format_html('<span class="tag tag-good">{}</span> {}', gettext("closed"), words)

    # What is done with many of them.

    def has_resolve_permission(self, request: HttpRequest) -> bool:
        return may(user_of(request), "resolve_mismatch")

    @admin.action(description=_("Assign to me"), permissions=["resolve"])
    def take(self, request: HttpRequest, queryset: Rows) -> HttpResponse:
        """What nobody has is mine; what somebody else has stays theirs."""
        by = user_of(request)

        def taken(mismatch: Mismatch) -> str:
            resolving.assign(mismatch_id=mismatch.pk, by=by, to=by, held_by=None)
            return gettext("Assigned to you.")

        return self._each(request, queryset, taken)

    @admin.action(description=_("Ask the provider again"), permissions=["resolve"])
    def ask_again(self, request: HttpRequest, queryset: Rows) -> HttpResponse:
        """Nothing is sent a second time."""

        def asked(mismatch: Mismatch) -> str:
            resolving.ask_again(mismatch_id=mismatch.pk, by=user_of(request))
            return gettext("The provider is being asked. The item closes once all is right.")

        return self._each(request, queryset, asked)

    @admin.action(description=_("Post the credit again"), permissions=["resolve"])
    def post_again(self, request: HttpRequest, queryset: Rows) -> HttpResponse:
        """For credits that the ERP has refused, once the cause is mended."""

        def posted(mismatch: Mismatch) -> str:
            resolving.post_again(mismatch_id=mismatch.pk, by=user_of(request))
            return gettext("The ERP is being asked. The item closes once the credit is posted.")

        return self._each(request, queryset, posted)

    @admin.action(description=_("Accept the difference, with a reason"), permissions=["resolve"])
    def accept(self, request: HttpRequest, queryset: Rows) -> HttpResponse:
        """One reason for all of them, on a page of its own that shows what is accepted."""
        reason, evidence = (request.POST.get(name, "") for name in ("reason", "evidence"))
        if complaint := resolving.complaint_about(reason):
            asked = "reason" in request.POST
            context = {
                **_some_of(queryset),
                "reason": reason,
                "evidence": evidence,
                "complaint": complaint if asked else "",
            }
            return self._page(request, "accept", context, status=400 if asked else 200)

        def accepted(mismatch: Mismatch) -> str:
            closed = resolving.resolve(
                mismatch_id=mismatch.pk,
                by=user_of(request),
                resolution=Mismatch.Resolution.ACCEPT,
                reason=reason,
                evidence=evidence,
            )
            return rows.decided(closed)

        return self._each(request, queryset, accepted)

    def _each(self, request: HttpRequest, queryset: Rows, does: rows.Does) -> HttpResponse:
        some = _some_of(queryset)
        results = rows.each(some["chosen"], does)
        context = {**some, "results": results, "back": request.get_full_path()}
        return self._page(request, "results", context)

    # One of them.

    def get_urls(self) -> list[URLPattern]:
        wrap, name = self.admin_site.admin_view, "reconciliation_mismatch"
        return [
            path("export/", wrap(self.export_view), name=f"{name}_export"),
            path("<int:pk>/next/", wrap(self.next_view), name=f"{name}_next"),
            *super().get_urls(),
        ]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The item with all its sides; a form on it names one verb."""
        mismatch = self._find(request, object_id)
        if request.method != "POST":
            resolving.look_at(mismatch_id=mismatch.pk, by=user_of(request))
            return self._show(request, mismatch, page.forms_for(mismatch, request.GET))
        forms = page.forms_for(mismatch, request.POST)
        try:
            told = page.carry_out(mismatch, forms, request.POST, user_of(request))
        except RefundDeskError as error:
            page.mark(forms, error)
            now = self._find(request, object_id)
            return self._show(request, now, forms, error)
        messages.success(request, told)
        if request.POST["verb"] in page.LEADS_ON:
            return self.next_view(request, mismatch.pk)
        return HttpResponseRedirect(self._address(request, "change", mismatch.pk))

    def next_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """On to the next item of the list that somebody comes from, or back to it."""
        mismatch = self._find(request, str(pk))
        following = queue.next_after(mismatch, self._listed(request), user_of(request))
        if following is None:
            return HttpResponseRedirect(self._address(request, "changelist"))
        return HttpResponseRedirect(self._address(request, "change", following.pk))

    def export_view(self, request: HttpRequest) -> StreamingHttpResponse:
        """What the list shows now, all of it, as CSV."""
        self._require_view(request)
        try:
            shown = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters as error:
            raise BadRequest(gettext("This filter cannot be understood.")) from error
        log.info(
            "mismatches exported by %s: %s", request.user, request.GET.urlencode() or "all open"
        )
        answer = StreamingHttpResponse(
            spreadsheets.lines(export.rows(shown)), content_type="text/csv; charset=utf-8"
        )
        name = f"mismatches-{timezone.now():%Y-%m-%d}.csv"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer

    def _show(
        self,
        request: HttpRequest,
        mismatch: Mismatch,
        forms: page.Forms,
        error: RefundDeskError | None = None,
    ) -> HttpResponse:
        context = {
            **page.context_of(mismatch, user_of(request)),
            "forms": forms,
            "error": error,
            "next": self._address(request, "next", mismatch.pk),
            "back": self._address(request, "changelist"),
            "filters": self.get_preserved_filters(request),
        }
        return self._page(request, "item", context, status=error.status if error else 200)

    def _page(
        self, request: HttpRequest, name: str, context: dict[str, Any], status: int = 200
    ) -> HttpResponse:
        shared = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "is_nav_sidebar_enabled": False,
        }
        template = f"{TEMPLATES}/{name}.html"
        return TemplateResponse(request, template, {**shared, **context}, status=status)

    def _find(self, request: HttpRequest, pk: str) -> Mismatch:
        self._require_view(request)
        known = pk.isascii() and pk.isdigit() and len(pk) < 19
        mismatch = casefile.find(int(pk)) if known else None
        if mismatch is None:
            raise Http404(gettext("There is no such mismatch."))
        return mismatch

    def _require_view(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _listed(self, request: HttpRequest) -> Rows:
        """The rows of the list that somebody comes from, with its filters."""
        listing = copy(request)
        listing.GET = QueryDict(request.GET.get("_changelist_filters", ""))
        try:
            return self.get_changelist_instance(listing).get_queryset(listing)
        except IncorrectLookupParameters:
            return queue.items()

    def _address(self, request: HttpRequest, name: str, *args: int) -> str:
        url = reverse(f"admin:reconciliation_mismatch_{name}", args=args)
        kept: dict[str, Any] = {
            "preserved_filters": self.get_preserved_filters(request),
            "opts": self.opts,
        }
        return add_preserved_filters(kept, url)


def _some_of(queryset: Rows) -> dict[str, Any]:
    """As many of the chosen as are dealt with at once, and how many more there are."""
    chosen = list(queryset[: rows.MOST_AT_ONCE])
    return {"chosen": chosen, "left": queryset.count() - len(chosen)}
