"""Paying by hand, in two steps: say that it begins, then what proves it, or that it did not."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from payments import handover
from payments.forms import GivenUpForm, HandedOverForm
from payments.models import PaymentTask
from returns.errors import Invalid, Missing
from returns.states import TaskState
from returns.views.staff import page, same_page, user_of


@page("hand_over")
def hand_over(request: HttpRequest, task_id: int) -> HttpResponse:
    """The second step: the reference that proves it, or why it did not happen."""
    task = _task(task_id)
    if task.state != TaskState.SENDING:
        return redirect("return", reference=task.operation.reference)
    return _shown(request, task, HandedOverForm(), GivenUpForm())


@page("hand_over", back="hand_over")
def start(request: HttpRequest, task_id: int) -> HttpResponse:
    """The first step: nobody else hands this over now."""
    task = handover.start(task_id=_task(task_id).pk, by=user_of(request))
    return redirect("hand_over", task_id=task.pk)


@page("hand_over", back="hand_over")
def confirm(request: HttpRequest, task_id: int) -> HttpResponse:
    """It is done."""
    task, form = _task(task_id), HandedOverForm(request.POST)
    if not form.is_valid():
        return _shown(request, task, form, GivenUpForm(), status=422)
    try:
        handover.confirm(
            task_id=task_id, by=user_of(request), reference=form.cleaned_data["reference"]
        )
    except Invalid as error:
        form.add_error("reference", list(error.fields.values()))
        return _shown(request, task, form, GivenUpForm(), status=422)
    messages.success(request, _("Recorded as paid by hand."))
    return redirect("return", reference=task.operation.reference)


@page("hand_over", back="hand_over")
def abandon(request: HttpRequest, task_id: int) -> HttpResponse:
    """No money went after all."""
    task, form = _task(task_id), GivenUpForm(request.POST)
    if not form.is_valid():
        return _shown(request, task, HandedOverForm(), form, status=422)
    handover.abandon(task_id=task_id, by=user_of(request), reason=form.cleaned_data["reason"])
    messages.info(request, _("No money was handed over. The payment waits again."))
    return redirect("return", reference=task.operation.reference)


def _task(task_id: int) -> PaymentTask:
    rows = PaymentTask.objects.select_related("operation__order", "tender", "handed_over_by")
    task = rows.filter(pk=task_id).first()
    if task is None:
        raise Missing(_("There is no such payment."))
    return task


def _shown(
    request: HttpRequest,
    task: PaymentTask,
    done: HandedOverForm,
    given_up: GivenUpForm,
    status: int = 200,
) -> HttpResponse:
    context = {"task": task, "operation": task.operation, "done": done, "given_up": given_up}
    response = render(request, "hand_over.html", context, status=status)
    return same_page(response) if status != 200 else response
