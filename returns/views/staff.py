"""What every page for staff shares: who may open it, and how a refusal is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from returns.errors import Missing, NotAllowed, RefundDeskError
from returns.permissions import require
from returns.wording import of_roles, of_verb
from returns.worklists import last_change_of

View = Callable[..., HttpResponse]

CONFLICT = 409
# What a person typed and should never have to type again.
KEPT_FIELDS = ("note", "reason", "customer_text")


def user_of(request: HttpRequest) -> User:
    """The signed-in user of a staff page."""
    return cast(User, request.user)


def page(action: str, *, back: str = "") -> Callable[[View], View]:
    """Decorates a view: signed-in staff who may do `action`; refusals become pages of their own.

    `back` names the page a form stands on: opening the form's own address leads there.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if back and request.method != "POST":
                return redirect(reverse(back, kwargs=kwargs))
            try:
                require(user_of(request), action)
                return view(request, **kwargs)
            except Missing as error:
                raise Http404(error.detail) from error
            except RefundDeskError as error:
                return refused(request, error, reference=kwargs.get("reference", ""))

        return login_required(wrapper)

    return decorate


def refused(request: HttpRequest, error: RefundDeskError, *, reference: str = "") -> HttpResponse:
    """Say what was refused and why, who changed what meanwhile, and keep what was typed."""
    context: dict[str, Any] = {"error": error, "reference": reference}
    if isinstance(error, NotAllowed) and error.code == "role":
        context["roles"] = of_roles(error.facts["action"])
    if request.method == "POST" and reference:
        context["kept"] = keep_draft(request, reference)
        if error.status == CONFLICT and (change := last_change_of(reference)):
            context |= {"changed": change, "changed_words": of_verb(change.verb)}
    return same_page(render(request, f"{error.status}.html", context, status=error.status))


def keep_draft(request: HttpRequest, reference: str) -> dict[str, str]:
    """Remember what was typed about a return, until something is decided about it."""
    typed = {name: request.POST[name] for name in KEPT_FIELDS if request.POST.get(name)}
    if typed:
        request.session["drafts"] = {**request.session.get("drafts", {}), reference: typed}
    return typed


def draft(request: HttpRequest, reference: str) -> dict[str, str]:
    """What was typed about a return before it was refused."""
    drafts: dict[str, dict[str, str]] = request.session.get("drafts", {})
    return drafts.get(reference, {})


def drop_draft(request: HttpRequest, reference: str) -> None:
    """It has arrived; nothing to keep any more."""
    if reference in request.session.get("drafts", {}):
        request.session["drafts"] = {
            name: typed for name, typed in request.session["drafts"].items() if name != reference
        }


def same_page(response: HttpResponse) -> HttpResponse:
    """An answer to a form that is shown in place: the address in the browser stays as it is."""
    response["HX-Push-Url"] = "false"
    return response
