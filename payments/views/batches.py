"""Approve what was chosen in the inbox, and see what became of each."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from payments.batches import Decision, counts, items, open_batch
from payments.forms import BatchForm
from payments.models import ApprovalBatch
from returns.errors import Invalid, Missing
from returns.queries import operations_named
from returns.views.staff import page, user_of

# How soon the page looks again: quickly while decisions are carried out, calmly while money moves.
LOOK_SOON_MS, LOOK_LATER_MS = 1_000, 10_000


@page("approve", back="approvals")
def approve_chosen(request: HttpRequest) -> HttpResponse:
    """Have everything approved that was ticked, each as it stood in the list."""
    form = BatchForm(request.POST)
    if not form.is_valid():
        return _choose_again(request, form.complaints)
    try:
        batch = open_batch(
            token=form.cleaned_data["token"],
            by=user_of(request),
            decisions=_decisions(form.cleaned_data["chosen"]),
        )
    except Invalid as error:
        return _choose_again(request, error.fields.values())
    return redirect("batch", token=batch.token)


@page("approve")
def batch(request: HttpRequest, token: UUID) -> HttpResponse:
    """How far a batch is, and what became of each of its returns."""
    found = ApprovalBatch.objects.select_related("opened_by").filter(token=token).first()
    if found is None:
        raise Missing("There is no such batch.", code="unknown_batch")
    now = counts(found)
    context = {
        "batch": found,
        "counts": now,
        "items": items(found),
        "look_after_ms": LOOK_SOON_MS if now.waiting else LOOK_LATER_MS,
    }
    return render(request, "batch.html", context)


def _decisions(chosen: list[tuple[str, int, int]]) -> list[Decision]:
    found = operations_named([reference for reference, _version, _minor in chosen])
    if len(found) < len(chosen):
        raise Invalid({"returns": _("Some of these returns do not exist.")})
    return [
        Decision(found[reference].operation_key, version, minor)
        for reference, version, minor in chosen
    ]


def _choose_again(request: HttpRequest, complaints: Iterable[str]) -> HttpResponse:
    for complaint in complaints:
        messages.error(request, complaint)
    return redirect("approvals")
