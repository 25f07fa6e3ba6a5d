"""What was compared and what came in; asking for a run and sending a settlement file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from reconciliation import overview, runs
from reconciliation.forms import DaysForm, SettlementForm
from reconciliation.statement_import import import_file
from reconciliation.statements.reading import NotReadable
from returns.errors import Missing
from returns.views.staff import page, same_page, user_of


@page("view_mismatches")
def reconciliation(request: HttpRequest) -> HttpResponse:
    """The latest runs and imports, and the two forms."""
    return _overview(request, {})


@page("reconcile", back="reconciliation")
def ask_for_run(request: HttpRequest) -> HttpResponse:
    """Have some days reconciled; the run itself is not made here."""
    form = DaysForm(request.POST)
    if not form.is_valid():
        return _overview(request, {"days": form})
    days = form.cleaned_data
    run = runs.ask(first=days["first"], last=days["last"], by=user_of(request))
    messages.success(request, _("The run starts in a moment; load this page again to see it."))
    return redirect("reconciliation_run", pk=run.pk)


@page("import_settlement", back="reconciliation")
def send_settlement(request: HttpRequest) -> HttpResponse:
    """Take a settlement file in, all of it or nothing."""
    form = SettlementForm(request.POST, request.FILES)
    if not form.is_valid():
        return _overview(request, {"settlement": form})
    file = form.cleaned_data["file"]
    try:
        statement = import_file(
            file=file.file,
            name=file.name,
            source=form.cleaned_data["source"],
            by=user_of(request),
        )
    except NotReadable as error:
        form.add_error("file", str(error))
        return _overview(request, {"settlement": form})
    return redirect("settlement_import", pk=statement.pk)


@page("view_mismatches")
def reconciliation_run(request: HttpRequest, pk: int) -> HttpResponse:
    """One run: the totals of every day and currency, and what it has found."""
    run = overview.run_of(pk)
    if run is None:
        raise Missing(_("There is no such run."))
    context = {
        "run": run,
        "totals": overview.totals_of(run),
        "found": overview.opened_by(run)[: overview.MOST_REFUSALS],
    }
    return render(request, "reconciliation_run.html", context)


@page("view_mismatches")
def settlement_import(request: HttpRequest, pk: int) -> HttpResponse:
    """One import, with the lines that were refused."""
    statement = overview.import_of(pk)
    if statement is None:
        raise Missing(_("There is no such import."))
    refusals = statement.refusals.order_by("number")[: overview.MOST_REFUSALS]
    return render(request, "settlement_import.html", {"statement": statement, "refusals": refusals})


def _overview(request: HttpRequest, forms: dict[str, Any]) -> HttpResponse:
    today = timezone.now().astimezone(ZoneInfo(settings.STORE_TIME_ZONE)).date()
    month = {"first": today - timedelta(days=settings.RECONCILE_DAYS), "last": today}
    context = {
        "days": DaysForm(initial=month),
        "settlement": SettlementForm(),
        "runs": overview.latest_runs(),
        "imports": overview.latest_imports(),
        **forms,
    }
    answer = render(request, "reconciliation.html", context, status=400 if forms else 200)
    return same_page(answer) if forms else answer
