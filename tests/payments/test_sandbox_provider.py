"""The sandbox provider, as a real process, spoken to with the official SDK."""

from __future__ import annotations

import csv
import io
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import stripe

from payments.sandbox.process import PROJECT_ROOT, SandboxProcess

SECRET = "whsec_for_tests"
DAY_SECONDS = 24 * 60 * 60


class Provider:
    """The process, the SDK's view of it and its control API."""

    def __init__(self, process: SandboxProcess) -> None:
        self.process = process
        self.url = process.url
        self.stripe = stripe.StripeClient(
            "sk_test_sandbox", base_addresses={"api": process.url}, max_network_retries=0
        )

    def control(self, path: str, document: object) -> Any:
        answer = httpx.post(f"{self.url}/_control/{path}", json=document)
        answer.raise_for_status()
        return answer.json()

    def fault(self, mode: str, **options: object) -> None:
        self.control("faults", {"mode": mode, **options})

    def pay(self, amount_minor: int = 10_000, currency: str = "usd") -> stripe.PaymentIntent:
        return self.stripe.v1.payment_intents.create(
            {
                "amount": amount_minor,
                "currency": currency,
                "confirm": True,
                "payment_method": "pm_card_visa",
            }
        )

    def refund(
        self, payment: str, amount_minor: int | None, key: str, operation: str = "op-1"
    ) -> stripe.Refund:
        params: Any = {"payment_intent": payment, "metadata": {"operation_key": operation}}
        if amount_minor is not None:
            params["amount"] = amount_minor
        return self.stripe.v1.refunds.create(params, {"idempotency_key": key})

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.url}/_control/{path}").json()

    def ledger(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.get("ledger")
        return listed


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with SandboxProcess("payments.sandbox", tmp_path / "provider") as process:
        yield Provider(process)


def was_replayed(refund: stripe.Refund) -> bool:
    assert refund.last_response is not None
    return refund.last_response.headers.get("Idempotent-Replayed") == "true"


def wait_until(fact: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# Payments and refunds.


def test_a_payment_and_its_refund_look_as_the_sdk_expects(provider: Provider) -> None:
    intent = provider.pay()
    refund = provider.refund(intent.id, 4784, "key-1")

    charge = provider.stripe.v1.charges.retrieve(str(intent.latest_charge))
    assert (intent.status, intent.amount_received) == ("succeeded", 10_000)
    assert (refund.status, refund.amount, refund.currency) == ("succeeded", 4784, "usd")
    assert refund.metadata is not None
    assert refund.metadata["operation_key"] == "op-1"
    assert provider.stripe.v1.refunds.retrieve(refund.id).charge == charge.id
    assert (charge.amount_refunded, charge.refunded) == (4784, False)
    assert provider.ledger() == [
        {
            "refund": refund.id,
            "payment": intent.id,
            "charge": charge.id,
            "amount": 4784,
            "currency": "usd",
            "idempotency_key": "key-1",
            "operation_key": "op-1",
            "status": "succeeded",
            "created": refund.created,
        }
    ]


def test_a_refund_without_an_amount_takes_the_rest(provider: Provider) -> None:
    intent = provider.pay()
    provider.refund(intent.id, 3000, "key-1")
    by_charge = provider.stripe.v1.refunds.create({"charge": str(intent.latest_charge)})
    assert by_charge.amount == 7000


def test_above_what_is_left_is_refused_and_nothing_moves(provider: Provider) -> None:
    intent = provider.pay(10_000)
    provider.refund(intent.id, 6000, "key-1")
    with pytest.raises(stripe.InvalidRequestError, match="greater than unrefunded") as above:
        provider.refund(intent.id, 4001, "key-2")
    provider.refund(intent.id, 4000, "key-3")
    with pytest.raises(stripe.InvalidRequestError, match="already been refunded") as nothing_left:
        provider.refund(intent.id, 1, "key-4")
    assert (above.value.http_status, above.value.param) == (400, "amount")
    assert nothing_left.value.code == "charge_already_refunded"
    assert [refund["amount"] for refund in provider.ledger()] == [6000, 4000]


@pytest.mark.parametrize("amount", ["0", "-10", "10.5", "1e2", "NaN"])
def test_amounts_that_are_not_positive_integers_are_refused(
    provider: Provider, amount: str
) -> None:
    intent = provider.pay()
    params: Any = {"payment_intent": intent.id, "amount": amount}
    with pytest.raises(stripe.InvalidRequestError) as refused:
        provider.stripe.v1.refunds.create(params)
    assert refused.value.param == "amount"
    assert provider.ledger() == []


def test_unknown_things_are_missing_resources(provider: Provider) -> None:
    with pytest.raises(stripe.InvalidRequestError) as payment:
        provider.refund("pi_unknown", 100, "key-1")
    with pytest.raises(stripe.InvalidRequestError) as refund:
        provider.stripe.v1.refunds.retrieve("re_unknown")
    for raised in (payment, refund):
        assert (raised.value.http_status, raised.value.code) == (404, "resource_missing")


def test_without_a_key_nobody_is_let_in(provider: Provider) -> None:
    answer = httpx.get(f"{provider.url}/v1/refunds")
    assert answer.status_code == 401
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_declined_card_takes_no_money(provider: Provider) -> None:
    with pytest.raises(stripe.CardError):
        provider.stripe.v1.payment_intents.create(
            {
                "amount": 100,
                "currency": "usd",
                "confirm": True,
                "payment_method": "pm_card_visa_chargeDeclined",
            }
        )
    (intent,) = provider.stripe.v1.payment_intents.list().data
    assert (intent.status, intent.latest_charge) == ("requires_payment_method", None)
    with pytest.raises(stripe.InvalidRequestError, match="does not have a successful charge"):
        provider.refund(intent.id, 100, "key-1")


def test_lists_are_paged_and_filtered(provider: Provider) -> None:
    mine, other = provider.pay(), provider.pay()
    made = [provider.refund(mine.id, 100, f"key-{n}").id for n in range(7)]
    provider.refund(other.id, 100, "key-other")
    refunds = provider.stripe.v1.refunds

    first = refunds.list({"payment_intent": mine.id, "limit": 3})
    every = [r.id for r in first.auto_paging_iter()]
    back = refunds.list({"payment_intent": mine.id, "limit": 2, "ending_before": made[0]})
    later = refunds.list({"created": {"gt": int(time.time()) + 3600}})

    assert (len(first.data), first.has_more) == (3, True)
    assert every == made[::-1]
    assert [r.id for r in back.data] == [made[2], made[1]]
    assert later.data == []
    assert len(refunds.list({"charge": str(other.latest_charge)}).data) == 1


def test_the_balance_lists_charges_and_refunds(provider: Provider) -> None:
    intent = provider.pay(10_000)
    refund = provider.refund(intent.id, 4000, "key-1")
    lines = provider.stripe.v1.balance_transactions.list({"expand": ["data.source"]}).data
    assert [(line.type, line.amount) for line in lines] == [("refund", -4000), ("charge", 10_000)]
    assert isinstance(lines[0].source, stripe.Refund)
    assert lines[0].source.id == refund.id


def test_the_settlement_file_uses_each_currencys_decimals(provider: Provider) -> None:
    for number, currency in enumerate(("usd", "jpy", "kwd")):
        provider.refund(provider.pay(18_600, currency).id, 5800, f"key-{number}", currency)
    rows = list(
        csv.DictReader(io.StringIO(httpx.get(f"{provider.url}/_control/settlement.csv").text))
    )
    refunds = [row for row in rows if row["type"] == "refund"]
    assert [(row["currency"], row["amount"], row["operation_key"]) for row in refunds] == [
        ("USD", "-58.00", "usd"),
        ("JPY", "-5800", "jpy"),
        ("KWD", "-5.800", "kwd"),
    ]


# Idempotency.


def test_the_same_key_replays_the_same_answer(provider: Provider) -> None:
    intent = provider.pay()
    first = provider.refund(intent.id, 100, "key-1")
    again = provider.refund(intent.id, 100, "key-1")
    assert again.id == first.id
    assert (was_replayed(first), was_replayed(again)) == (False, True)
    assert len(provider.ledger()) == 1


def test_the_same_key_with_other_parameters_is_refused(provider: Provider) -> None:
    intent = provider.pay()
    provider.refund(intent.id, 100, "key-1")
    with pytest.raises(stripe.IdempotencyError):
        provider.refund(intent.id, 101, "key-1")
    assert len(provider.ledger()) == 1


def test_the_same_key_in_flight_is_a_conflict(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("slow", seconds=30)
    with ThreadPoolExecutor() as senders:
        slow = senders.submit(provider.refund, intent.id, 100, "key-1")
        wait_until(lambda: len(provider.ledger()) == 1)
        with pytest.raises(stripe.APIError) as conflict:
            provider.refund(intent.id, 100, "key-1")
        assert (conflict.value.http_status, type(conflict.value)) == (409, stripe.APIError)
        provider.process.stop()
        with pytest.raises(stripe.APIConnectionError):
            slow.result()


def test_a_key_is_forgotten_after_24_hours_of_its_own_clock(provider: Provider) -> None:
    intent = provider.pay()
    first = provider.refund(intent.id, 100, "key-1")
    provider.control("clock", {"advance_seconds": DAY_SECONDS - 60})
    assert provider.refund(intent.id, 100, "key-1").id == first.id
    provider.control("clock", {"advance_seconds": 61})
    second = provider.refund(intent.id, 100, "key-1")
    assert second.id != first.id
    assert second.created - first.created >= DAY_SECONDS
    assert len(provider.ledger()) == 2


def test_a_request_refused_before_execution_saves_nothing(provider: Provider) -> None:
    intent = provider.pay()
    with pytest.raises(stripe.InvalidRequestError):
        provider.refund(intent.id, 0, "key-1")
    assert provider.refund(intent.id, 100, "key-1").status == "succeeded"


def test_a_refusal_by_the_charges_state_is_saved(provider: Provider) -> None:
    intent = provider.pay(100)
    refund = provider.refund(intent.id, 100, "key-1")
    for _ in range(2):
        with pytest.raises(stripe.InvalidRequestError, match="already been refunded"):
            provider.refund(intent.id, 50, "key-2")
        provider.control(f"refunds/{refund.id}", {"status": "failed"})
    assert provider.refund(intent.id, 50, "key-3").status == "succeeded"


def test_sixteen_clients_with_one_key_make_one_refund(provider: Provider) -> None:
    intent = provider.pay()

    def send(number: int) -> str:
        try:
            return provider.refund(intent.id, 100, "key-1").id
        except stripe.APIError as error:
            return f"{error.http_status}"

    with ThreadPoolExecutor(16) as senders:
        answers = set(senders.map(send, range(64)))
    (only,) = provider.ledger()
    assert answers - {"409"} == {only["refund"]}


def test_sixteen_clients_cannot_refund_more_than_was_charged(provider: Provider) -> None:
    intent = provider.pay(10_000)

    def send(number: int) -> bool:
        try:
            provider.refund(intent.id, 3000, f"key-{number}")
        except stripe.InvalidRequestError:
            return False
        return True

    with ThreadPoolExecutor(16) as senders:
        assert sum(senders.map(send, range(32))) == 3


# Faults.


def test_drop_before_leaves_nothing_behind(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("drop_before")
    with pytest.raises(stripe.APIConnectionError):
        provider.refund(intent.id, 100, "key-1")
    assert provider.ledger() == []
    assert provider.refund(intent.id, 100, "key-1").status == "succeeded"


def test_drop_after_is_found_by_the_look_up(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("drop_after")
    with pytest.raises(stripe.APIConnectionError):
        provider.refund(intent.id, 100, "key-1", "op-lost")
    (found,) = provider.stripe.v1.refunds.list({"payment_intent": intent.id}).data
    assert found.metadata is not None
    assert found.metadata["operation_key"] == "op-lost"
    assert provider.refund(intent.id, 100, "key-1", "op-lost").id == found.id
    assert len(provider.ledger()) == 1


def test_error_after_saves_its_500_under_the_key(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("error_after")
    for _ in range(2):
        with pytest.raises(stripe.APIError) as error:
            provider.refund(intent.id, 100, "key-1")
        assert error.value.http_status == 500
    assert len(provider.ledger()) == 1
    assert provider.get("faults") == []


def test_error_before_saves_nothing(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("error_before", times=2)
    for _ in range(2):
        with pytest.raises(stripe.APIError):
            provider.refund(intent.id, 100, "key-1")
    assert provider.ledger() == []
    assert provider.refund(intent.id, 100, "key-1").status == "succeeded"


def test_a_request_cut_off_while_sending_has_no_effect(provider: Provider) -> None:
    intent = provider.pay()
    body = f"payment_intent={intent.id}&amount=1"
    head = "POST /v1/refunds HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer sk\r\n"
    with socket.create_connection(("127.0.0.1", httpx.URL(provider.url).port)) as client:
        client.sendall(f"{head}Content-Length: {len(body) + 2}\r\n\r\n{body}".encode())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1000) == b""
    assert provider.ledger() == []


def test_garbage_after_is_200_that_is_not_json(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("garbage_after")
    with pytest.raises(stripe.APIError) as garbage:
        provider.refund(intent.id, 100, "key-1")
    assert garbage.value.http_status == 200
    assert len(provider.ledger()) == 1
    assert provider.refund(intent.id, 100, "key-1").status == "succeeded"


def test_a_slow_answer_comes_after_its_effect(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("slow", seconds=0.5)
    with ThreadPoolExecutor() as senders:
        slow = senders.submit(provider.refund, intent.id, 100, "key-1")
        wait_until(lambda: len(provider.ledger()) == 1)
        assert not slow.done()
        assert slow.result().id == provider.ledger()[0]["refund"]


def test_decline_is_a_card_error_and_saved(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("decline")
    for _ in range(2):
        with pytest.raises(stripe.CardError):
            provider.refund(intent.id, 100, "key-1")
    assert provider.ledger() == []


def test_a_low_balance_refuses_and_is_saved(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("insufficient_balance")
    for _ in range(2):
        with pytest.raises(stripe.InvalidRequestError) as refused:
            provider.refund(intent.id, 100, "key-1")
        assert refused.value.code == "balance_insufficient"
    assert provider.ledger() == []


def test_an_equal_amount_is_refused_for_now_and_nothing_is_saved(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("same_amount")
    with pytest.raises(stripe.InvalidRequestError) as refused:
        provider.refund(intent.id, 100, "key-1")
    assert refused.value.code == "duplicate_refund_amount"
    assert provider.refund(intent.id, 100, "key-1").status == "succeeded"


def test_what_the_bank_took_back_is_told_and_not_refunded(provider: Provider) -> None:
    intent = provider.pay()
    dispute = provider.control("disputes", {"payment": intent.id, "amount": 100})
    told = provider.get("events")[-1]["event"]
    assert (told["type"], told["data"]["object"]) == ("charge.dispute.created", dispute)
    assert provider.stripe.v1.charges.retrieve(str(intent.latest_charge)).disputed
    with pytest.raises(stripe.InvalidRequestError) as refused:
        provider.refund(intent.id, 100, "key-1")
    assert refused.value.code == "charge_disputed"
    for payment, amount in (("pi_nobody", 1), (intent.id, 0)):
        with pytest.raises(httpx.HTTPStatusError, match=r"40[04]"):
            provider.control("disputes", {"payment": payment, "amount": amount})


def test_rate_limit_says_when_to_come_back(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("rate_limit", seconds=7)
    with pytest.raises(stripe.RateLimitError) as limited:
        provider.refund(intent.id, 100, "key-1")
    assert limited.value.headers is not None
    assert limited.value.headers["Retry-After"] == "7"
    assert provider.refund(intent.id, 100, "key-1").status == "succeeded"


def test_unauthorized_applies_nothing(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("unauthorized")
    with pytest.raises(stripe.AuthenticationError):
        provider.refund(intent.id, 100, "key-1")
    assert provider.ledger() == []


def test_a_late_request_arrives_after_a_look_up_that_found_nothing(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("late", seconds=0.5)
    with pytest.raises(stripe.APIConnectionError):
        provider.refund(intent.id, 100, "key-1")
    assert provider.stripe.v1.refunds.list({"payment_intent": intent.id}).data == []
    wait_until(lambda: len(provider.ledger()) == 1)
    assert provider.ledger()[0]["idempotency_key"] == "key-1"


def test_a_fault_hits_only_what_it_matches(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("drop_after", match="op-unlucky")
    provider.fault("error_before", match="GET /v1/refunds")
    provider.refund(intent.id, 100, "key-1", "op-lucky")
    with pytest.raises(stripe.APIConnectionError):
        provider.refund(intent.id, 100, "key-2", "op-unlucky")
    with pytest.raises(stripe.APIError):
        provider.stripe.v1.refunds.list()
    assert len(provider.stripe.v1.refunds.list().data) == 2


def test_faults_are_listed_cleared_and_refused_when_senseless(provider: Provider) -> None:
    provider.fault("slow", times=3, seconds=2)
    assert provider.get("faults") == [{"mode": "slow", "times": 3, "match": None, "seconds": 2}]
    httpx.delete(f"{provider.url}/_control/faults")
    assert provider.get("faults") == []
    for senseless in ({"mode": "other"}, {"mode": "slow", "times": 0}, {"mode": "slow", "x": 1}):
        assert httpx.post(f"{provider.url}/_control/faults", json=senseless).status_code == 400


def test_every_request_is_on_record(provider: Provider) -> None:
    intent = provider.pay()
    provider.fault("drop_before")
    with pytest.raises(stripe.APIConnectionError):
        provider.refund(intent.id, 100, "key-1")
    _, dropped = provider.get("requests")
    assert dropped["parameters"]["amount"] == "100"
    assert dropped["parameters"]["metadata"] == {"operation_key": "op-1"}
    assert (dropped["idempotency_key"], dropped["fault"], dropped["status"]) == (
        "key-1",
        "drop_before",
        None,
    )


# Refunds that change their state, and what survives.


def test_pending_then_succeeded_then_returned(provider: Provider) -> None:
    intent = provider.pay(100)
    provider.fault("pending")
    refund = provider.refund(intent.id, 100, "key-1")
    assert refund.status == "pending"
    assert len(provider.stripe.v1.balance_transactions.list().data) == 1

    moved = provider.control(f"refunds/{refund.id}", {"status": "succeeded"})
    assert moved["status"] == "succeeded"
    provider.control(f"refunds/{refund.id}", {"status": "failed"})
    charge = provider.stripe.v1.charges.retrieve(str(intent.latest_charge))
    assert charge.amount_refunded == 0
    lines = provider.stripe.v1.balance_transactions.list().data
    assert [line.amount for line in lines] == [100, -100, 100]
    back = httpx.post(f"{provider.url}/_control/refunds/{refund.id}", json={"status": "succeeded"})
    assert (back.status_code, back.json()["code"]) == (409, "wrong_state")


def test_payments_can_be_seeded_under_their_own_names(provider: Provider) -> None:
    payments = [{"payment": f"pi_order_{n}", "amount": 500, "currency": "JPY"} for n in range(50)]
    assert provider.control("payments", payments) == {"created": 50, "unchanged": 0}
    assert provider.control("payments", payments) == {"created": 0, "unchanged": 50}
    assert provider.refund("pi_order_7", 500, "key-1").currency == "jpy"


def test_kill_9_and_restart_loses_nothing(provider: Provider) -> None:
    intent = provider.pay()
    provider.control("clock", {"advance_seconds": 3600})
    refund = provider.refund(intent.id, 100, "key-1")
    before = provider.ledger()
    provider.process.kill()
    provider.process.start()
    assert provider.ledger() == before
    assert len(provider.get("requests")) == 2
    replayed = provider.refund(intent.id, 100, "key-1")
    assert replayed.id == refund.id
    assert was_replayed(replayed)
    assert provider.refund(intent.id, None, "key-2").created >= refund.created


def test_a_line_torn_by_a_kill_is_cut_off(provider: Provider, tmp_path: Path) -> None:
    intent = provider.pay()
    provider.process.kill()
    with (tmp_path / "provider" / "journal.jsonl").open("a") as journal:
        journal.write('[["refund",{"id":"re_torn"')
    provider.process.start()
    assert provider.ledger() == []
    provider.refund(intent.id, 100, "key-1")
    provider.process.kill()
    provider.process.start()
    assert len(provider.ledger()) == 1


def test_reset_empties_everything(provider: Provider) -> None:
    intent = provider.pay()
    provider.refund(intent.id, 100, "key-1")
    provider.fault("slow")
    provider.control("reset", {})
    assert (provider.ledger(), provider.get("requests"), provider.get("faults")) == ([], [], [])
    with pytest.raises(stripe.InvalidRequestError):
        provider.stripe.v1.payment_intents.retrieve(intent.id)


# Webhooks.


class Receiver:
    """The product's side of a webhook: verifies each delivery with the SDK."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.refusals_to_come = 0
        self.url = ""

    def receive(self, payload: bytes, signature: str) -> int:
        event: Any = stripe.Webhook.construct_event(payload, signature, SECRET)
        self.events.append(event)
        if self.refusals_to_come:
            self.refusals_to_come -= 1
            return 500
        return 200

    def kinds(self) -> list[str]:
        return [event.type for event in self.events]


@contextmanager
def listening(receiver: Receiver) -> Iterator[Receiver]:
    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.receive(payload, self.headers["Stripe-Signature"]))
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    receiver.url = f"http://127.0.0.1:{server.server_port}/webhooks/stripe/"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening(Receiver()) as listener:
        yield listener


@pytest.fixture
def telling_provider(tmp_path: Path, receiver: Receiver) -> Iterator[Provider]:
    options = ("--webhook-url", receiver.url, "--webhook-secret", SECRET)
    with SandboxProcess("payments.sandbox", tmp_path / "provider", *options) as process:
        yield Provider(process)


def test_webhooks_are_signed_and_carry_the_refund(
    telling_provider: Provider, receiver: Receiver
) -> None:
    telling_provider.control("clock", {"advance_seconds": DAY_SECONDS})
    intent = telling_provider.pay()
    telling_provider.fault("pending")
    refund = telling_provider.refund(intent.id, 100, "key-1")
    telling_provider.control(f"refunds/{refund.id}", {"status": "succeeded"})
    telling_provider.control(f"refunds/{refund.id}", {"status": "failed"})
    wait_until(lambda: len(receiver.events) == 3)

    assert receiver.kinds() == ["refund.created", "refund.updated", "refund.failed"]
    statuses = [event.data.object.status for event in receiver.events]
    assert statuses == ["pending", "succeeded", "failed"]
    assert len({event.id for event in receiver.events}) == 3
    created = receiver.events[0]
    assert (created.livemode, created.data.object.id) == (False, refund.id)
    assert created.created == refund.created


def test_a_refused_webhook_comes_again(telling_provider: Provider, receiver: Receiver) -> None:
    receiver.refusals_to_come = 1
    telling_provider.refund(telling_provider.pay().id, 100, "key-1")
    wait_until(lambda: len(receiver.events) == 2)
    assert receiver.events[0].id == receiver.events[1].id
    wait_until(lambda: telling_provider.get("events")[0]["delivered"])
    assert telling_provider.get("events")[0]["tries"] == 2


def test_events_not_yet_delivered_survive_a_kill(
    telling_provider: Provider, receiver: Receiver
) -> None:
    telling_provider.control("webhooks", {"hold": True})
    telling_provider.refund(telling_provider.pay().id, 100, "key-1")
    assert receiver.events == []
    telling_provider.process.kill()
    telling_provider.process.start()
    wait_until(lambda: receiver.kinds() == ["refund.created"])


def test_held_events_are_delivered_in_any_order_and_repeatedly(
    telling_provider: Provider, receiver: Receiver
) -> None:
    telling_provider.control("webhooks", {"hold": True})
    intent = telling_provider.pay()
    telling_provider.fault("pending")
    refund = telling_provider.refund(intent.id, 100, "key-1")
    telling_provider.control(f"refunds/{refund.id}", {"status": "succeeded"})
    created, updated = (item["event"]["id"] for item in telling_provider.get("events"))

    sent = telling_provider.control("events", {"deliver": [updated, created, updated]})
    assert [event.id for event in receiver.events] == [updated, created, updated]
    assert {item["status"] for item in sent} == {200}
    telling_provider.control("events", {"deliver": [created] * 8, "at_once": True})
    assert len(receiver.events) == 11
    telling_provider.control("webhooks", {"hold": False})
    assert all(item["delivered"] for item in telling_provider.get("events"))


# Starting and stopping.


def start(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "payments.sandbox", "--port", "0", *options],
        cwd=PROJECT_ROOT,
        env=os.environ | {"DJANGO_ENV": "test"} | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_does_not_start_in_production(tmp_path: Path) -> None:
    ended = start("--data", str(tmp_path), DJANGO_ENV="production")
    assert ended.returncode == 2
    assert "production" in ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])  # noqa: S104
def test_it_does_not_listen_beyond_loopback(tmp_path: Path, host: str) -> None:
    ended = start("--data", str(tmp_path), "--host", host)
    assert ended.returncode == 2
    assert "loopback" in ended.stderr


def test_a_second_process_on_the_same_data_is_refused(provider: Provider, tmp_path: Path) -> None:
    ended = start("--data", str(tmp_path / "provider"))
    assert ended.returncode == 2
    assert "in use" in ended.stderr


def test_sigterm_ends_it_cleanly(provider: Provider) -> None:
    assert provider.get("health") == {"status": "ok"}
    assert provider.process.stop() == 0
