"""The desk: one scan box, and what waits for this person."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from returns.forms import ScanForm
from returns.scanning import clean, resolve
from returns.views.staff import page, user_of
from returns.worklists import mine_unfinished, others_to_inspect

# The desk is for today's work; the list of returns has the rest.
MOST_ROWS = 20


@page("open_pages")
def desk(request: HttpRequest) -> HttpResponse:
    """One hit opens; several are listed; none says so."""
    form = ScanForm(request.GET)
    text = form.cleaned_data["q"] if form.is_valid() else ""
    hits = resolve(text)
    if len(hits) == 1:
        return redirect(hits[0].url)
    user = user_of(request)
    return render(
        request,
        "desk.html",
        {
            "asked": clean(text).words,
            "hits": hits,
            "mine": mine_unfinished(user)[:MOST_ROWS],
            "others": others_to_inspect(user)[:MOST_ROWS],
            "most_rows": MOST_ROWS,
        },
    )
