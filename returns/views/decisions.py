"""What is done about a return's goods: inspect, reject, withdraw."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from returns.closing import reject, withdraw
from returns.errors import Invalid
from returns.forms import InspectionForm, RejectionForm, UnitForm, WithdrawalForm
from returns.inspection import inspect
from returns.views.operations import found_operation, shown
from returns.views.staff import drop_draft, page, user_of


@page("inspect", back="return")
def inspect_goods(request: HttpRequest, reference: str) -> HttpResponse:
    """Record what was found about every unit."""
    found = found_operation(reference)
    form = InspectionForm(found, request.POST)
    if not form.is_valid():
        return shown(request, found, refused={"inspect": form}, status=422)
    try:
        inspect(
            operation_key=found.operation_key,
            by=user_of(request),
            accepted=form.findings(UnitForm.ACCEPTED),
            rejected=form.findings(UnitForm.REJECTED),
            note=form.cleaned_data["note"].strip(),
            seen_version=form.cleaned_data["version"],
        )
    except Invalid as error:
        for complaint in error.fields.values():
            form.add_error(None, complaint)
        return shown(request, found, refused={"inspect": form}, status=422)
    return _done(request, reference, _("Inspected. A manager who did not take part decides next."))


@page("reject", back="return")
def reject_return(request: HttpRequest, reference: str) -> HttpResponse:
    """A manager says no."""
    found = found_operation(reference)
    form = RejectionForm(found, request.POST, auto_id="reject-%s")
    if not form.is_valid():
        return shown(request, found, refused={"reject": form}, status=422)
    reject(
        operation_key=found.operation_key,
        by=user_of(request),
        reason=form.cleaned_data["reason"].strip(),
        seen_version=form.cleaned_data["version"],
    )
    return _done(request, reference, _("Rejected. The goods are free to be returned again."))


@page("withdraw", back="return")
def withdraw_return(request: HttpRequest, reference: str) -> HttpResponse:
    """The customer keeps the goods."""
    found = found_operation(reference)
    form = WithdrawalForm(found, request.POST, auto_id="withdraw-%s")
    if not form.is_valid():
        return shown(request, found, refused={"withdraw": form}, status=422)
    withdraw(
        operation_key=found.operation_key,
        by=user_of(request),
        reason=form.cleaned_data["reason"].strip(),
        seen_version=form.cleaned_data["version"],
    )
    return _done(request, reference, _("Withdrawn. The goods are free to be returned again."))


def _done(request: HttpRequest, reference: str, words: str) -> HttpResponse:
    drop_draft(request, reference)
    messages.success(request, words)
    return redirect("return", reference=reference)
