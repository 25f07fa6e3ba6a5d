"""The Stripe adapter through Stripe's own SDK: what each thing that can happen is taken to mean.

Against the sandbox as a real process; what the sandbox never says comes from a server that always
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

from config.ports import HOST, any_free
from payments.outcomes import Absent, Accepted, Deferred, Outcome, Refused, Settled, Unknown
from payments.providers.base import PaymentOrder
from payments.providers.stripe import StripeProvider
from tests.sandboxes import SandboxProvider

PAYMENT = "pi_order"
LOOK_UP = "GET /v1/refunds"


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


def test_sending_the_same_order_again_moves_no_money_again(captured: SandboxProvider) -> None:
    order = payment_order()
    assert StripeProvider().pay(order) == StripeProvider().pay(order)
    assert len(captured.ledger()) == 1


@pytest.mark.parametrize(
    ("currency", "amount_minor", "on_the_wire"),
    [
        ("EUR", 4784, "4784"),
        ("JPY", 5800, "5800"),
        ("KWD", 18_600, "18600"),
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


def test_nobody_listening_is_unknown(settings: Settings) -> None:
    settings.STRIPE_API_BASE = f"http://{HOST}:{any_free()}"
    adapter = StripeProvider()
    assert_unknown(adapter.pay(payment_order()))
    assert_unknown(adapter.find(payment_order()))


@pytest.mark.parametrize(
    ("fault", "refunds"),
    [
        ("drop_before", 0),
        ("drop_after", 1),
        ("error_before", 0),
        ("error_after", 1),
        ("garbage_after", 1),
    ],
)
def test_without_a_clear_answer_it_is_unknown_and_sent_only_once(
    captured: SandboxProvider, fault: str, refunds: int
) -> None:
    captured.fault(fault)
    assert_unknown(StripeProvider().pay(payment_order()))
    assert len(captured.ledger()) == refunds
    assert len(captured.refund_requests()) == 1, "the SDK must not try again by itself"


def test_an_answer_that_takes_too_long_is_unknown(
    captured: SandboxProvider, settings: Settings
) -> None:
    settings.OUTBOUND_TIMING = {**settings.OUTBOUND_TIMING, "call_seconds": 4}
    captured.fault("slow", seconds=30)
    assert_unknown(StripeProvider().pay(payment_order()))
    assert len(captured.ledger()) == 1


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


def test_the_same_key_with_other_parameters_is_unknown_and_an_alarm(
    captured: SandboxProvider,
) -> None:
    order = payment_order()
    StripeProvider().pay(order)
    assert_unknown(StripeProvider().pay(replace(order, amount_minor=1)), alarm="key_conflict")
    assert len(captured.ledger()) == 1


def test_above_what_was_captured_is_refused(captured: SandboxProvider) -> None:
    outcome = StripeProvider().pay(payment_order(amount_minor=10_001))
    assert isinstance(outcome, Refused)
    assert "greater than unrefunded amount" in outcome.reason


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


def test_a_rate_limit_is_deferred_for_as_long_as_it_says(captured: SandboxProvider) -> None:
    captured.fault("rate_limit", seconds=17)
    outcome = StripeProvider().pay(payment_order())
    assert isinstance(outcome, Deferred)
    assert (outcome.retry_after_seconds, outcome.stops_account) == (17, False)
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


def test_a_refund_is_found_on_a_later_page_among_others(captured: SandboxProvider) -> None:
    order = payment_order(amount_minor=5)
    made = StripeProvider().pay(order)
    for _ in range(100):
        StripeProvider().pay(payment_order(amount_minor=5))
    assert StripeProvider().find(order) == made
    pages = [seen for seen in captured.requests() if seen["method"] == "GET"]
    assert len(pages) == 2
    assert StripeProvider().find(payment_order(amount_minor=5)) == Absent()


def test_a_refund_that_is_known_is_asked_for_by_its_id(captured: SandboxProvider) -> None:
    order = payment_order()
    made = StripeProvider().pay(order)
    assert isinstance(made, Settled)
    assert StripeProvider().find(replace(order, provider_refund=made.reference)) == made
    assert captured.requests()[-1]["path"] == f"/v1/refunds/{made.reference}"


def test_a_look_up_that_sees_nothing_is_absent(captured: SandboxProvider) -> None:
    assert StripeProvider().find(payment_order()) == Absent()
    assert StripeProvider().find(payment_order(payment="pi_unknown")) == Absent()


@pytest.mark.parametrize("fault", ["drop_before", "drop_after", "error_before", "garbage_after"])
def test_a_look_up_without_an_answer_is_unknown_never_absent(
    captured: SandboxProvider, fault: str
) -> None:
    captured.fault(fault, match=LOOK_UP)
    assert_unknown(StripeProvider().find(payment_order()))


def test_a_look_up_is_deferred_and_stopped_like_a_payment(captured: SandboxProvider) -> None:
    captured.fault("rate_limit", match=LOOK_UP, seconds=9)
    captured.fault("unauthorized", match=LOOK_UP)
    limited, stopped = (StripeProvider().find(payment_order()) for _ in range(2))
    assert isinstance(limited, Deferred)
    assert limited.retry_after_seconds == 9
    assert isinstance(stopped, Deferred)
    assert stopped.stops_account


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
