"""The list of returns, oldest first; the query string is the saved filter."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from returns.forms import ReturnFilter
from returns.queries import operations
from returns.views.staff import page

ROWS_A_PAGE = 50


@page("open_pages")
def returns(request: HttpRequest) -> HttpResponse:
    """One page of the list. Pages go on after a row and not after a count, so none is skipped."""
    chosen = ReturnFilter(request.GET, queryset=operations())
    rows = chosen.qs
    after = request.GET.get("after", "")
    if after.isascii() and after.isdigit() and len(after) < 19:
        rows = rows.filter(pk__gt=int(after))
    rows = list(rows[: ROWS_A_PAGE + 1])
    kept = request.GET.copy()
    kept.pop("after", None)
    first_page = kept.urlencode()
    if len(rows) > ROWS_A_PAGE:
        kept["after"] = str(rows[ROWS_A_PAGE - 1].pk)
    context = {
        "filter": chosen,
        "rows": rows[:ROWS_A_PAGE],
        "next": kept.urlencode() if len(rows) > ROWS_A_PAGE else "",
        "first": first_page,
        "later": bool(after),
        "filtered": any(request.GET.get(name) for name in ("state", "text")),
    }
    return render(request, "returns.html", context)
