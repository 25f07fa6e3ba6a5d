"""How to get to every fail point, and how the refund that was on its way there must end.

Each journey prepares an order up to one step: a client's request or a worker's task. Whatever
interrupts that step, the client sends the same request again, the workers go on, and the order's
refund comes out once.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from django.contrib.auth.models import User
from rest_framework.authtoken.models import Token

from payments import dispatch
from payments.models import PaymentTask
from reconciliation.models import Mismatch
from reconciliation.posting import open_postings
from returns import inspection
from returns.models import Order, OrderBalance, RefundOperation, Tender
from returns.states import OperationState
from tests import factories
from tests.events import signed
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

PRICE_MINOR = 10_000
LEASE_SECONDS = 31
# What an answered request may say.
ANSWERED = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT)
# Longer than the pause after a first time-out.
BEFORE_ASKING_SECONDS = 10

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Request:
    """What a client sends, and sends again until it is answered."""

    method: str
    path: str
    body: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Task:
    """What a worker does: one function of the product."""

    verb: str
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True)
class Journey:
    """An order and the step that is interrupted."""

    order: str
    step: Request | Task


def _asked(by: User, method: str, path: str, body: object) -> Request:
    token, _ = Token.objects.get_or_create(user=by)
    headers = {"Authorization": f"Token {token.key}", "Content-Type": "application/json"}
    return Request(method, f"/api/v1/{path}", json.dumps(body), headers)


# The steps.


def confirming(provider: SandboxProvider) -> Journey:
    """The shop's own system sends an order."""
    number, amount = f"J{next(_numbers)}", "100.00"
    body = {
        "currency": "USD",
        "placed_at": factories.PLACED_AT.isoformat(),
        "lines": [{"id": "shirt", "quantity": 1, "unit_price": amount}],
        "tenders": [
            {"id": "card", "provider": "stripe", "payment": f"pi_{number}", "amount": amount}
        ],
    }
    return Journey(number, _asked(factories.integration(), "PUT", f"orders/{number}/", body))


def taking_in(provider: SandboxProvider) -> Journey:
    order = factories.OrderFactory.create()
    body = {
        "channel": "counter",
        "message_id": f"journey-{next(_numbers)}",
        "order": order.number,
        "items": [{"line": "shirt", "quantity": 1}],
    }
    return Journey(order.number, _asked(factories.desk(), "POST", "returns/", body))


def inspecting(provider: SandboxProvider) -> Journey:
    operation = factories.received()
    body = {"accepted": [{"line": "shirt", "unit": 1}]}
    return _deciding(operation, factories.desk(), "inspect", body)


def withdrawing(provider: SandboxProvider) -> Journey:
    operation = factories.received()
    return _deciding(operation, factories.desk(), "withdraw", {"reason": "Changed their mind."})


def approving(provider: SandboxProvider) -> Journey:
    operation = factories.inspected()
    return _deciding(operation, factories.manager(), "approve", {"amount": "100.00"})


def _deciding(operation: RefundOperation, by: User, verb: str, body: object) -> Journey:
    path = f"returns/{operation.operation_key}/{verb}/"
    return Journey(operation.order.number, _asked(by, "POST", path, body))


def paying(provider: SandboxProvider) -> Journey:
    operation = factories.reserved()
    provider.know_payments()
    return _working(operation, "payments.tasks:pay_operation")


def asking(provider: SandboxProvider) -> Journey:
    """The first answer was lost; the time to ask has come."""
    operation = _paid_without_an_answer(provider)
    let_pass(BEFORE_ASKING_SECONDS)
    return _working(operation, "payments.tasks:pay_operation")


def hearing(provider: SandboxProvider) -> Journey:
    """The first answer was lost; the provider tells us by itself."""
    operation = _paid_without_an_answer(provider)
    body, headers = signed(provider.events()[-1]["event"])
    headers["Content-Type"] = "application/json"
    step = Request("POST", "/api/v1/webhooks/stripe/", body, headers)
    return Journey(operation.order.number, step)


def opening(provider: SandboxProvider) -> Journey:
    operation = _paid(provider)
    return Journey(operation.order.number, Task("reconciliation.posting:open_postings"))


def posting(provider: SandboxProvider) -> Journey:
    operation = _paid(provider)
    open_postings()
    step = Task("reconciliation.tasks:post_operations", ([operation.pk],))
    return Journey(operation.order.number, step)


def _working(operation: RefundOperation, verb: str) -> Journey:
    return Journey(operation.order.number, Task(verb, (operation.pk,)))


def _paid_without_an_answer(provider: SandboxProvider) -> RefundOperation:
    operation = factories.reserved()
    provider.know_payments()
    provider.fault("drop_after")
    dispatch.pay(PaymentTask.objects.get(operation=operation).pk)
    return operation


def _paid(provider: SandboxProvider) -> RefundOperation:
    operation = factories.reserved()
    provider.know_payments()
    return factories.pay(operation)


JOURNEYS: dict[str, Callable[[SandboxProvider], Journey]] = {
    "order-written": confirming,
    "return-opened": taking_in,
    "message-stored": taking_in,
    "intake-committed": taking_in,
    "findings-written": inspecting,
    "return-closed": withdrawing,
    "approval-written": approving,
    "reserved": approving,
    "approval-committed": approving,
    "before-claim": paying,
    "claimed": paying,
    "before-lease-check": paying,
    "before-call": paying,
    "after-call": paying,
    "before-look-up": asking,
    "after-look-up": asking,
    "outcome-written": paying,
    "money-moved": paying,
    "payment-recorded": paying,
    "postings-opened": opening,
    "before-draft": posting,
    "after-draft": posting,
    "after-entry-look-up": posting,
    "before-post": posting,
    "after-post": posting,
    "posting-recorded": posting,
    "event-stored": hearing,
    "news-applied": hearing,
    "event-applied": hearing,
    "event-committed": hearing,
}

_BY_CLIENTS = (confirming, taking_in, inspecting, withdrawing, approving, hearing)
# Points that lie in the web server, and those that lie in workers.
WEB_POINTS = [point for point, journey in JOURNEYS.items() if journey in _BY_CLIENTS]
WORKER_POINTS = [point for point in JOURNEYS if point not in WEB_POINTS]


# The end.


def decided(number: str) -> RefundOperation:
    """People do what is left to do until the order's refund is reserved."""
    order = Order.objects.get(number=number)
    live = order.operations.exclude(state__in=[OperationState.REJECTED, OperationState.CANCELLED])
    operation = live.first() or factories.received(order)
    if operation.state == OperationState.RECEIVED:
        found = factories.units(operation)
        inspection.inspect(
            operation_key=operation.operation_key, by=factories.desk(), accepted=found, rejected=()
        )
    if factories.fresh(operation).state == OperationState.INSPECTED:
        factories.approved_by(factories.manager(), operation)
    return factories.fresh(operation)


def refunded_once(number: str, provider: SandboxProvider, erp: SandboxErp) -> list[str]:
    """What is wrong with an order of one shirt whose refund should be posted."""
    operation = RefundOperation.objects.get(order__number=number, state=OperationState.POSTED)
    task = PaymentTask.objects.get(operation=operation)
    balance = OrderBalance.objects.get(order=operation.order_id)
    payment = Tender.objects.get(order=operation.order_id).payment
    found = {
        "reserved and refunded": (balance.reserved_minor, balance.refunded_minor),
        "at the provider": [
            (refund["amount"], refund["idempotency_key"])
            for refund in provider.ledger()
            if refund["payment"] == payment
        ],
        "in the ERP": [
            entry["state"]
            for entry in erp.entries()
            if entry["reference"] == str(operation.operation_key)
        ],
        "open": list(
            Mismatch.objects.filter(operation=operation, status="open").values_list("kind")
        ),
    }
    right = {
        "reserved and refunded": (0, PRICE_MINOR),
        "at the provider": [(PRICE_MINOR, str(task.wire_key))],
        "in the ERP": ["posted"],
        "open": [],
    }
    return [f"{number}: {name} is {found[name]}" for name in right if found[name] != right[name]]
