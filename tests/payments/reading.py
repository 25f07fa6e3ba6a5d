"""What the tests of payments make and read: a payment, its money, its calls, what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

from payments.models import PaymentAttempt, PaymentTask
from reconciliation.models import Mismatch
from reconciliation.sweeping import sweep
from returns.models import OrderBalance, RefundOperation
from tests import factories
from tests.sandboxes import Json, SandboxProvider

QUARTER_OF_AN_HOUR = 15 * 60
DAY = 24 * 60 * 60


def reserved_payment(provider: SandboxProvider, **decision: Any) -> PaymentTask:
    """The payment of an approved return, waiting for its worker."""
    operation = factories.reserved(**decision)
    provider.know_payments()
    return PaymentTask.objects.get(operation=operation)


def stored(task: PaymentTask) -> PaymentTask:
    return PaymentTask.objects.get(pk=task.pk)


def operation_of(task: PaymentTask) -> RefundOperation:
    return RefundOperation.objects.get(pk=task.operation_id)


def figures(task: PaymentTask) -> tuple[int, int, int]:
    """Reserved, refunded and remaining of the order, minor units."""
    balance = OrderBalance.objects.get(order=operation_of(task).order_id)
    return balance.reserved_minor, balance.refunded_minor, balance.remaining_minor


def states_seen(task: PaymentTask) -> set[str]:
    """Every state the payment was ever in."""
    history: Any = PaymentTask.objects.get(pk=task.pk)
    return set(history.history.values_list("state", flat=True))


def calls(task: PaymentTask) -> list[tuple[str, str, str]]:
    """Every step of every call in order: purpose, step, outcome."""
    rows = PaymentAttempt.objects.filter(row=task).order_by("pk")
    return list(rows.values_list("purpose", "step", "outcome"))


def keys_sent(provider: SandboxProvider) -> list[str]:
    return [seen["idempotency_key"] for seen in provider.refund_requests()]


def open_mismatch(task: PaymentTask) -> Mismatch:
    """The one open item about a payment, after a sweep."""
    sweep(threads=1)
    return Mismatch.objects.get(payment=task, status=Mismatch.Status.OPEN)


def wait_until(fact: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def made_elsewhere(provider: SandboxProvider, task: PaymentTask, amount_minor: int) -> str:
    """A refund under our key that is not the one we ask for; its id at the provider."""
    answer = httpx.post(
        f"{provider.url}/v1/refunds",
        data={
            "payment_intent": task.tender.payment,
            "amount": str(amount_minor),
            "metadata[payment_key]": str(task.wire_key),
            "metadata[operation_key]": str(task.operation.operation_key),
        },
        headers={"Authorization": "Bearer sk_test", "Idempotency-Key": str(task.wire_key)},
    )
    made: Json = answer.raise_for_status().json()
    return str(made["id"])
