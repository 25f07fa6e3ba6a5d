"""The payments page: what is in doubt first. And asking the provider again."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django_q.tasks import async_task

from payments import heartbeat
from payments.models import PaymentTask
from payments.settlement import ask_again, declare_unpaid
from payments.worklist import figures, open_payments, start_of_today
from returns.errors import Missing
from returns.states import TASK_FINAL
from returns.views.staff import page, user_of

# A worker says every few seconds that it is alive; this much silence is worth a word.
SILENT_SECONDS = 60


@page("view_payments")
def payments(request: HttpRequest) -> HttpResponse:
    """Everything that is not done yet, most urgent first."""
    beats = sorted(heartbeat.ages().items())
    context = {
        **open_payments(),
        "figures": figures(start_of_today()),
        "workers": [(name, int(age), age > SILENT_SECONDS) for name, age in beats],
    }
    return render(request, "payments.html", context)


@page("ask_provider", back="payments")
def ask(request: HttpRequest) -> HttpResponse:
    """Have the provider asked now what became of a payment. Nothing is sent a second time."""
    task = ask_again(task_id=_named(request), by=user_of(request))
    if task.state in TASK_FINAL:
        messages.info(request, _("This payment has been decided in the meantime."))
    else:
        # Only a nudge; without a worker the sweep finds the row.
        async_task("payments.tasks.pay_operation", task.operation_id, cluster=settings.MONEY_QUEUE)
        messages.success(request, _("The provider is being asked what became of this payment."))
    return _back(request, task)


@page("declare_unpaid", back="payments")
def unpaid(request: HttpRequest) -> HttpResponse:
    """A person decides that a payment set aside has certainly not been made."""
    task = declare_unpaid(
        task_id=_named(request), by=user_of(request), reason=request.POST.get("reason", "")
    )
    messages.success(request, _("Declared unpaid. The amount is owed and can be approved again."))
    return _back(request, task)


def _named(request: HttpRequest) -> int:
    """The payment that a form names. Raises Missing."""
    named = request.POST.get("payment", "")
    number = int(named) if named.isascii() and named.isdigit() and len(named) < 19 else 0
    if not PaymentTask.objects.filter(pk=number).exists():
        raise Missing(_("There is no such payment."))
    return number


def _back(request: HttpRequest, task: PaymentTask) -> HttpResponse:
    """To the page that the form stood on."""
    if request.POST.get("from") == "payments":
        return redirect("payments")
    return redirect("return", reference=task.operation.reference)
