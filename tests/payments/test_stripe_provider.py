"""What is Stripe's own in its adapter: names, amounts, statuses and errors, as its SDK tells them.

What every provider's adapter must do is tested in tests/conformance, this one included. Here it
meets the sandbox as a real process; what the sandbox never says comes from a server that always
gives the same answer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from pytest_django import Settings

from config.ports import HOST
from payments.outcomes import Absent, Accepted, Deferred, Outcome, Refused, Settled, Unknown
from payments.providers.base import PaymentOrder
from payments.providers.stripe import StripeProvider
from tests.sandboxes import SandboxProvider

PAYMENT = "pi_order"


def payment_order(**facts: Any) -> PaymentOrder:
    """A refund of 47.84 EUR that has not been sent yet, or what is given instead."""
    ordinary = PaymentOrder(
        wire_key=uuid4(),
        operation_key=uuid4(),
        reference="R-2841",
        order="W0000001",
        payment=PAYMENT,
        amount_minor=4784,
        currency="EUR",
    )
    return replace(ordinary, **facts)


@pytest.fixture
def captured(provider: SandboxProvider) -> SandboxProvider:
    """The provider, which has captured 100.00 EUR."""
    provider.control("payments", [{"payment": PAYMENT, "amount": 10_000, "currency": "EUR"}])
    return provider


@contextmanager
def always(
    settings: Settings, status: int, body: object, headers: dict[str, str] | None = None
) -> Iterator[StripeProvider]:
    """The adapter, talking to a server that gives this one answer to everything."""
    text = body if isinstance(body, str) else json.dumps(body)

    class Answering(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _answer  # noqa: N815 - http.server looks these up

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            """Silent."""

    with ThreadingHTTPServer((HOST, 0), Answering) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings.STRIPE_API_BASE = f"http://{HOST}:{server.server_address[1]}"
        yield StripeProvider()
        server.shutdown()


def refund_object(status: str = "succeeded", **facts: object) -> dict[str, object]:
    ordinary = {"id": "re_1", "object": "refund", "amount": 4784, "currency": "eur"}
    return {**ordinary, "status": status, "metadata": {}, **facts}


def assert_unknown(outcome: Outcome, alarm: str = "") -> None:
    assert isinstance(outcome, Unknown), outcome
    assert (outcome.alarm, bool(outcome.reason)) == (alarm, True)


def the_one(provider: SandboxProvider) -> dict[str, Any]:
    (refund,) = provider.ledger()
    return refund


# The ordinary way.


def test_a_refund_carries_our_key_our_names_and_the_amount(captured: SandboxProvider) -> None:
    order = payment_order()
    outcome = StripeProvider().pay(order)
    (request,) = captured.refund_requests()
    assert outcome == Settled(the_one(captured)["refund"], 4784, "EUR")
    assert request["idempotency_key"] == str(order.wire_key)
    assert request["parameters"] == {
        "payment_intent": PAYMENT,
        "amount": "4784",
        "metadata": {
            "operation_key": str(order.operation_key),
            "payment_key": str(order.wire_key),
            "reference": "R-2841",
            "order": "W0000001",
        },
    }


def test_a_refund_can_be_made_and_found_on_a_charge(captured: SandboxProvider) -> None:
    StripeProvider().pay(payment_order(amount_minor=100))
    charge = the_one(captured)["charge"]
    order = payment_order(payment=charge, amount_minor=200)
    made = StripeProvider().pay(order)
    assert isinstance(made, Settled)
    assert StripeProvider().find(order) == made


@pytest.mark.parametrize(
    ("currency", "amount_minor", "on_the_wire"),
    [
        # No decimals of their own, but two at Stripe.
        ("ISK", 5800, "580000"),
        ("UGX", 1, "100"),
    ],
)
def test_amounts_go_out_and_come_back_in_the_units_of_either_side(
    provider: SandboxProvider, currency: str, amount_minor: int, on_the_wire: str
) -> None:
    seed = {"payment": PAYMENT, "amount": 10_000_000, "currency": currency}
    provider.control("payments", [seed])
    order = payment_order(currency=currency, amount_minor=amount_minor)
    made = StripeProvider().pay(order)
    (request,) = provider.refund_requests()
    assert request["parameters"]["amount"] == on_the_wire
    assert made == Settled(the_one(provider)["refund"], amount_minor, currency)
    assert StripeProvider().find(order) == made


def test_an_amount_between_two_of_our_units_is_never_rounded_to_ours(
    settings: Settings,
) -> None:
    with always(settings, 200, refund_object(amount=580_050, currency="isk")) as adapter:
        outcome = adapter.pay(payment_order(currency="ISK", amount_minor=5800))
    assert isinstance(outcome, Settled)
    assert outcome.amount_minor not in (5800, 5801)


def test_a_currency_that_stripe_counts_otherwise_is_refused_before_anything_is_sent(
    provider: SandboxProvider,
) -> None:
    outcome = StripeProvider().pay(payment_order(currency="MGA"))
    assert isinstance(outcome, Refused)
    assert outcome.code == "currency_not_supported"
    assert provider.requests() == []


def test_the_amount_is_named_even_when_it_is_nothing(captured: SandboxProvider) -> None:
    outcome = StripeProvider().pay(payment_order(amount_minor=0))
    assert isinstance(outcome, Refused)
    (request,) = captured.refund_requests()
    assert request["parameters"]["amount"] == "0"
    assert captured.ledger() == []


# What an answer means, row by row.


def test_a_key_that_is_in_use_is_unknown(captured: SandboxProvider) -> None:
    order = payment_order()
    captured.fault("slow", seconds=30)
    # Somebody else's request under the same key: it stays in flight for as long as the fault says.
    first = threading.Thread(target=_abandoned, args=(captured.url, order.wire_key))
    first.start()
    _wait_until(lambda: len(captured.refund_requests()) == 1)
    assert_unknown(StripeProvider().pay(order))
    assert [seen["status"] for seen in captured.refund_requests()] == [200, 409]
    assert len(captured.ledger()) == 1
    first.join()


def test_the_saved_500_of_a_refund_that_was_made_stays_unknown_until_the_look_up(
    captured: SandboxProvider,
) -> None:
    order = payment_order()
    captured.fault("error_after")
    assert_unknown(StripeProvider().pay(order))
    assert_unknown(StripeProvider().pay(order))
    assert StripeProvider().find(order) == Settled(the_one(captured)["refund"], 4784, "EUR")


def test_already_refunded_is_a_refusal_for_the_protocol_to_judge(
    captured: SandboxProvider,
) -> None:
    StripeProvider().pay(payment_order(amount_minor=10_000))
    outcome = StripeProvider().pay(payment_order())
    assert isinstance(outcome, Refused)
    assert outcome.code == "charge_already_refunded"


def test_a_payment_that_nobody_knows_is_refused(provider: SandboxProvider) -> None:
    outcome = StripeProvider().pay(payment_order(payment="pi_unknown"))
    assert isinstance(outcome, Refused)
    assert outcome.code == "resource_missing"


def test_a_decline_is_refused(captured: SandboxProvider) -> None:
    captured.fault("decline")
    outcome = StripeProvider().pay(payment_order())
    assert isinstance(outcome, Refused)
    assert outcome.code == "card_declined"
    assert captured.ledger() == []


def test_refused_credentials_stop_the_account(captured: SandboxProvider) -> None:
    captured.fault("unauthorized")
    outcome = StripeProvider().pay(payment_order())
    assert isinstance(outcome, Deferred)
    assert outcome.stops_account


def test_refused_permission_stops_the_account(settings: Settings) -> None:
    error = {"type": "invalid_request_error", "message": "This key may not refund."}
    with always(settings, 403, {"error": error}) as adapter:
        for outcome in (adapter.pay(payment_order()), adapter.find(payment_order())):
            assert isinstance(outcome, Deferred)
            assert outcome.stops_account


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"object": "refund"}',
        refund_object(amount=None),
        refund_object("?"),
    ],
    ids=["empty", "list", "null", "bare", "no-fields", "no-amount", "new-status"],
)
def test_a_200_that_is_no_refund_as_we_know_it_is_unknown(settings: Settings, body: object) -> None:
    with always(settings, 200, body) as adapter:
        assert_unknown(adapter.pay(payment_order()))
        assert_unknown(adapter.find(payment_order(provider_refund="re_1")))


@pytest.mark.parametrize("body", ["[]", "{}", '{"object": "list"}', "<html>"])
def test_a_list_that_is_none_is_unknown_never_absent(settings: Settings, body: str) -> None:
    with always(settings, 200, body) as adapter:
        assert_unknown(adapter.find(payment_order()))


def test_a_refund_under_way_is_accepted_not_settled(captured: SandboxProvider) -> None:
    order = payment_order()
    captured.fault("pending")
    made = StripeProvider().pay(order)
    refund = the_one(captured)["refund"]
    assert made == Accepted(refund, 4784, "EUR")
    assert StripeProvider().find(order) == made
    captured.move_refund(refund, "succeeded")
    assert StripeProvider().find(order) == Settled(refund, 4784, "EUR")
    captured.move_refund(refund, "failed")
    failed = StripeProvider().find(order)
    assert isinstance(failed, Refused)
    assert failed.code == "refund_failed"


@pytest.mark.parametrize(
    ("status", "meaning"),
    [("requires_action", Accepted), ("canceled", Refused), ("failed", Refused)],
)
def test_the_other_statuses_of_a_refund(
    settings: Settings, status: str, meaning: type[Outcome]
) -> None:
    with always(settings, 200, refund_object(status)) as adapter:
        assert isinstance(adapter.pay(payment_order()), meaning)


# Looking up.


def test_a_refund_that_is_known_is_asked_for_by_its_id(captured: SandboxProvider) -> None:
    order = payment_order()
    made = StripeProvider().pay(order)
    assert isinstance(made, Settled)
    assert StripeProvider().find(replace(order, provider_refund=made.reference)) == made
    assert captured.requests()[-1]["path"] == f"/v1/refunds/{made.reference}"


def test_a_payment_that_nobody_knows_was_never_refunded(provider: SandboxProvider) -> None:
    assert StripeProvider().find(payment_order(payment="pi_unknown")) == Absent()


def test_refused_credentials_stop_the_account_in_a_look_up_too(captured: SandboxProvider) -> None:
    captured.fault("unauthorized", match="GET /v1/refunds")
    outcome = StripeProvider().find(payment_order())
    assert isinstance(outcome, Deferred)
    assert outcome.stops_account


def test_several_refunds_under_one_key_are_an_alarm_unless_only_one_moves_money(
    captured: SandboxProvider,
) -> None:
    order = payment_order(amount_minor=100)
    StripeProvider().pay(order)
    # The provider has forgotten the key: the same order is a second refund there.
    captured.advance_clock(25 * 60 * 60)
    second = StripeProvider().pay(order)
    assert isinstance(second, Settled)
    assert_unknown(StripeProvider().find(order), alarm="more_than_one_payment")
    captured.move_refund(captured.ledger()[0]["refund"], "failed")
    assert StripeProvider().find(order) == second


def _abandoned(url: str, key: UUID) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{url}/v1/refunds",
            data={"payment_intent": PAYMENT, "amount": "4784"},
            headers={"Authorization": "Bearer sk_test", "Idempotency-Key": str(key)},
            timeout=2,
        )


def _wait_until(fact: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
