"""Approving: the decision on a return's page, and the inbox of what waits for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import uuid4

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from payments.approval import Seen, approve
from payments.models import PaymentTask
from payments.worklist import agreed_by, start_of_today
from returns import money
from returns.destinations import BY_HAND
from returns.errors import InsufficientBalance, Invalid, NotAllowed
from returns.forms import ApprovalForm
from returns.models import RefundOperation
from returns.states import OperationState
from returns.views.operations import found_operation, shown
from returns.views.return_page import ReturnPage
from returns.views.staff import drop_draft, page, user_of
from returns.worklists import decided_by, to_decide_by, to_decide_by_others

if TYPE_CHECKING:
    from returns.queries import OperationRow

MOST_ROWS = 50


@page("approve", back="return")
def approve_return(request: HttpRequest, reference: str) -> HttpResponse:
    """Approve the amount that the button named; another amount is read back first."""
    found = found_operation(reference)
    form = ReturnPage(found, user_of(request)).new_approval_form(request.POST)
    if not form.is_valid() or form.needs_reading_back:
        return shown(request, found, refused={"approve": form}, status=422)
    try:
        approved = approve(
            operation_key=found.operation_key,
            by=user_of(request),
            amount_minor=form.cleaned_data["amount"],
            note=form.cleaned_data["note"].strip(),
            seen=Seen(form.cleaned_data["version"], form.cleaned_data["seen_remaining"]),
        )
    except Invalid as error:
        return _again(request, found, form, error.fields.values(), 422)
    except InsufficientBalance as error:
        return _again(request, found, form, [error.detail], error.status)
    except NotAllowed as error:
        if error.code != "over_limit":
            raise
        return _again(request, found, form, [_over_limit(error)], error.status)
    drop_draft(request, reference)
    messages.success(request, _said(approved))
    return redirect("return", reference=reference)


@page("approve")
def read_back(request: HttpRequest, reference: str) -> HttpResponse:
    """The button for the amount that is being typed: what was understood, and what it leaves."""
    found = found_operation(reference)
    facts = ReturnPage(found, user_of(request))
    form = facts.new_approval_form(request.GET)
    form.full_clean()
    facts.refused["approve"] = form
    context = {"page": facts, "operation": found, "typing": True}
    return render(request, "parts/return_action.html#send", context)


@page("approve")
def approvals(request: HttpRequest) -> HttpResponse:
    """What waits for this manager, what only others may decide, and what was decided today."""
    user = user_of(request)
    context = {
        "waiting": to_decide_by(user).exclude(agreed_by(user))[:MOST_ROWS],
        "agreed": to_decide_by(user).filter(agreed_by(user))[:MOST_ROWS],
        "own": to_decide_by_others(user)[:MOST_ROWS],
        "decided": decided_by(user, start_of_today())[:MOST_ROWS],
        "most_rows": MOST_ROWS,
        "token": uuid4(),
    }
    return render(request, "approvals.html", context)


def _again(
    request: HttpRequest,
    found: OperationRow,
    form: ApprovalForm,
    complaints: Iterable[str],
    status: int,
) -> HttpResponse:
    for complaint in complaints:
        form.add_error("amount", complaint)
    return shown(request, found, refused={"approve": form}, status=status)


def _over_limit(error: NotAllowed) -> str:
    currency = error.facts["currency"]
    return _("Managers may approve up to %(most)s.") % {
        "most": _shown(money.parse(error.facts["limit"], currency), currency)
    }


def _said(approved: RefundOperation) -> str:
    if approved.state == OperationState.APPROVED:
        return _("Approved by you. A second manager has to agree before anything is paid.")
    waiting = PaymentTask.objects.filter(operation=approved, generation=approved.pay_rounds)
    tasks = list(waiting.select_related("tender").order_by("pk"))
    by_hand = [
        f"{_shown(task.amount_minor, task.currency)} ({task.tender})"
        for task in tasks
        if task.provider == BY_HAND
    ]
    if not by_hand:
        return _("Approved. The money is reserved and the payment is on its way.")
    said = _("Approved. The money is reserved. Hand it over: %(parts)s.") % {
        "parts": ", ".join(by_hand)
    }
    return said if len(by_hand) == len(tasks) else said + " " + _("The rest is on its way.")


def _shown(minor: int, currency: str) -> str:
    return money.shown(minor, currency, get_language() or "en")
