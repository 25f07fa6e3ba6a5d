"""One return on one page, and the page that follows what happens to it elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from returns.errors import Missing
from returns.queries import operation_by_reference
from returns.views.return_page import ReturnPage
from returns.views.staff import draft, page, same_page, user_of

if TYPE_CHECKING:
    from returns.queries import OperationRow

# The first look comes quickly, since most payments take a second; then ever more slowly. Where a
# person has to do something first, there is no such hurry.
_FIRST_LOOK_MS, _FIRST_LOOK_AT_WORK_MS, _LONGEST_LOOK_MS = 700, 2_800, 30_000


@page("open_pages")
def operation(request: HttpRequest, reference: str) -> HttpResponse:
    """The page of one return."""
    found = found_operation(reference)
    if found.reference != reference:
        return redirect("return", reference=found.reference)
    return shown(request, found)


@page("open_pages")
def live(request: HttpRequest, reference: str) -> HttpResponse:
    """Asked by an open page: nothing new and when to ask again, or the page anew."""
    found = found_operation(reference)
    facts = ReturnPage(found, user_of(request), draft(request, reference))
    if request.GET.get("seen") == facts.view_token:
        look = request.GET.get("look", "")
        looks = int(look) + 1 if look.isascii() and look.isdigit() and len(look) < 4 else 1
        context = {"page": facts, "operation": found, **_next_look(facts, looks)}
        return render(request, "return.html#watch", context)
    response = shown(request, found)
    response["HX-Retarget"], response["HX-Reswap"] = "#main", "outerHTML"
    response["HX-Reselect"] = "#main"
    return response


def found_operation(reference: str) -> OperationRow:
    """The operation of this name. Raises Missing."""
    found = operation_by_reference(reference)
    if found is None:
        raise Missing(_("There is no return %(reference)s.") % {"reference": reference})
    return found


def shown(
    request: HttpRequest,
    found: OperationRow,
    *,
    refused: dict[str, forms.Form] | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page of a return, with a refused form on it where there is one."""
    facts = ReturnPage(
        found,
        user_of(request),
        draft(request, found.reference),
        refused or {},
        money_only=request.GET.get("timeline") == "money",
    )
    context = {"page": facts, "operation": found, **_next_look(facts, 0)}
    response = render(request, "return.html", context, status=status)
    return same_page(response) if refused else response


def _next_look(facts: ReturnPage, looks: int) -> dict[str, int]:
    first = _FIRST_LOOK_MS if facts.moves_by_itself else _FIRST_LOOK_AT_WORK_MS
    delay = min(first * 2 ** min(looks // 3, 10), _LONGEST_LOOK_MS)
    return {"look": looks, "look_after_ms": delay}
