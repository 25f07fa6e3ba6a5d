"""What every provider's adapter must make of each thing that can happen, without ever raising."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from pytest_django import Settings

from config.ports import HOST, any_free
from payments.outcomes import Absent, Accepted, Deferred, Outcome, Refused, Settled, Unknown
from payments.providers.base import PaymentOrder
from tests.conformance.conftest import ProviderBench
from tests.conformance.fault_proxy import APPLIED, NOT_APPLIED, Mode

CAPTURED_MINOR = 10_000
MORE_THAN_A_PAGE = 102


def payment_order(bench: ProviderBench, **facts: Any) -> PaymentOrder:
    """A refund of 47.84 on a new payment of 100.00 USD, or what is given instead."""
    ordinary = PaymentOrder(
        wire_key=uuid4(),
        operation_key=uuid4(),
        reference="R-2841",
        order="W0000001",
        payment=facts.get("payment") or bench.counterpart.capture(CAPTURED_MINOR, "USD"),
        amount_minor=4784,
        currency="USD",
    )
    return replace(ordinary, **facts)


def another(order: PaymentOrder, **facts: Any) -> PaymentOrder:
    """Another refund on the same payment."""
    return replace(order, wire_key=uuid4(), operation_key=uuid4(), **facts)


def assert_made(outcome: Outcome, order: PaymentOrder) -> str:
    """It is there, or under way, for the amount that was asked; returns its reference."""
    assert isinstance(outcome, Settled | Accepted), outcome
    assert (outcome.amount_minor, outcome.currency) == (order.amount_minor, order.currency)
    assert outcome.reference
    return outcome.reference


def assert_unknown(outcome: Outcome) -> None:
    assert isinstance(outcome, Unknown), outcome
    assert outcome.reason


def assert_sent_once(bench: ProviderBench, order: PaymentOrder) -> None:
    assert bench.keys_sent() == [str(order.wire_key)]


# The ordinary way.


def test_a_payment_is_made_once_under_our_key_and_found_by_it(bench: ProviderBench) -> None:
    order = payment_order(bench)
    made = bench.adapter.pay(order)
    reference = assert_made(made, order)
    (out,) = bench.money_out(order.payment)
    assert (out.reference, out.amount, out.currency) == (reference, 4784, "USD")
    assert (out.wire_key, out.operation_key) == (str(order.wire_key), str(order.operation_key))
    assert bench.adapter.find(order) == made
    assert bench.adapter.find(replace(order, provider_refund=reference)) == made
    assert_sent_once(bench, order)


def test_amounts_are_minor_units_of_every_currency(bench: ProviderBench) -> None:
    for currency in bench.counterpart.currencies:
        payment = bench.counterpart.capture(CAPTURED_MINOR, currency)
        order = payment_order(bench, payment=payment, currency=currency, amount_minor=1234)
        made = bench.adapter.pay(order)
        assert_made(made, order)
        assert [(out.amount, out.currency) for out in bench.money_out(payment)] == [
            (1234, currency)
        ]
        assert bench.adapter.find(order) == made


def test_several_refunds_of_one_payment_are_told_apart(bench: ProviderBench) -> None:
    first = payment_order(bench)
    # The same amount again: a look-up that went by amounts would mix them up.
    second = another(first)
    made = [bench.adapter.pay(order) for order in (first, second)]
    assert assert_made(made[0], first) != assert_made(made[1], second)
    assert [bench.adapter.find(order) for order in (first, second)] == made
    assert len(bench.money_out(first.payment)) == 2


def test_every_page_of_a_payments_refunds_is_looked_through(bench: ProviderBench) -> None:
    order = payment_order(bench, amount_minor=5)
    adapter = bench.adapter
    for _ in range(MORE_THAN_A_PAGE):
        adapter.pay(another(order))
    last = bench.money_out(order.payment)[-1]
    found = adapter.find(replace(order, wire_key=UUID(last.wire_key)))
    assert assert_made(found, order) == last.reference
    assert adapter.find(order) == Absent()


def test_a_look_up_that_sees_nothing_is_absent(bench: ProviderBench) -> None:
    assert bench.adapter.find(payment_order(bench)) == Absent()


# Asked for twice.


def test_a_repeat_does_what_the_counterpart_is_declared_to_do(bench: ProviderBench) -> None:
    """Without keys it pays twice: then nothing but our look-up and our balance protects."""
    order = payment_order(bench)
    first, second = bench.adapter.pay(order), bench.adapter.pay(order)
    references = {assert_made(first, order), assert_made(second, order)}
    outs = bench.money_out(order.payment)
    assert {out.reference for out in outs} == references
    assert bench.keys_sent() == [str(order.wire_key)] * 2
    if bench.counterpart.honours_keys:
        assert len(outs) == 1
        assert bench.adapter.find(order) == first
    else:
        assert len(outs) == 2
        found = bench.adapter.find(order)
        assert isinstance(found, Unknown)
        assert found.alarm == "more_than_one_payment"


def test_our_key_for_another_amount_is_never_taken_for_that_amount(bench: ProviderBench) -> None:
    order = payment_order(bench)
    bench.adapter.pay(order)
    if not bench.counterpart.honours_keys:
        return
    outcome = bench.adapter.pay(replace(order, amount_minor=1))
    assert isinstance(outcome, Unknown)
    assert outcome.alarm == "key_conflict"
    assert [out.amount for out in bench.money_out(order.payment)] == [4784]


# Refusals.


def test_above_what_was_captured_is_refused_or_at_least_told_as_it_is(
    bench: ProviderBench,
) -> None:
    order = payment_order(bench, amount_minor=CAPTURED_MINOR + 1)
    outcome = bench.adapter.pay(order)
    if bench.counterpart.refuses_over_refunds:
        assert isinstance(outcome, Refused)
        assert outcome.code
        assert outcome.reason
        assert bench.money_out(order.payment) == []
    else:
        assert_made(outcome, order)


def test_after_everything_is_refunded_another_refund_is_refused(bench: ProviderBench) -> None:
    order = payment_order(bench, amount_minor=CAPTURED_MINOR)
    assert_made(bench.adapter.pay(order), order)
    outcome = bench.adapter.pay(another(order, amount_minor=1))
    assert isinstance(outcome, Refused) is bench.counterpart.refuses_over_refunds


def test_a_payment_that_nobody_knows_is_never_paid(bench: ProviderBench) -> None:
    order = payment_order(bench)
    unknown = replace(order, payment=f"{order.payment[:-4]}0000")
    assert isinstance(bench.adapter.pay(unknown), Refused | Unknown)
    assert isinstance(bench.adapter.find(unknown), Absent | Unknown)


def test_nothing_is_not_taken_for_everything(bench: ProviderBench) -> None:
    order = payment_order(bench, amount_minor=0)
    assert isinstance(bench.adapter.pay(order), Refused | Unknown)
    assert bench.money_out(order.payment) == []


# No answer, or none that can be understood.


@pytest.mark.parametrize("mode", [*NOT_APPLIED, *APPLIED])
def test_a_payment_without_a_clear_answer_is_unknown_and_sent_only_once(
    bench: ProviderBench, mode: Mode
) -> None:
    order = payment_order(bench)
    bench.fault(mode)
    assert_unknown(bench.adapter.pay(order))
    assert_sent_once(bench, order)
    outs = bench.money_out(order.payment)
    assert len(outs) == (mode in APPLIED)
    found = bench.adapter.find(order)
    assert found == Absent() if not outs else assert_made(found, order) == outs[0].reference


@pytest.mark.parametrize("mode", [*NOT_APPLIED, *APPLIED])
def test_a_look_up_without_a_clear_answer_is_unknown_never_absent(
    bench: ProviderBench, mode: Mode
) -> None:
    order = payment_order(bench)
    bench.fault_of_a_look_up(mode)
    assert_unknown(bench.adapter.find(order))


def test_an_answer_that_takes_too_long_is_unknown_and_not_waited_for(
    bench: ProviderBench, settings: Settings
) -> None:
    order = payment_order(bench)
    settings.OUTBOUND_TIMING = {**settings.OUTBOUND_TIMING, "call_seconds": 4}
    adapter = bench.adapter
    bench.fault(Mode.SLOW, seconds=30)
    began = time.monotonic()
    assert_unknown(adapter.pay(order))
    assert time.monotonic() - began < 4
    assert_sent_once(bench, order)
    assert_made(adapter.find(order), order)


def test_nobody_listening_is_unknown(bench: ProviderBench, settings: Settings) -> None:
    order = payment_order(bench)
    for name, value in bench.counterpart.settings(f"http://{HOST}:{any_free()}").items():
        setattr(settings, name, value)
    assert_unknown(bench.adapter.pay(order))
    assert_unknown(bench.adapter.find(order))


def test_a_request_that_arrives_late_is_unknown_first_and_found_afterwards(
    bench: ProviderBench,
) -> None:
    order = payment_order(bench)
    bench.fault(Mode.LATE)
    assert_unknown(bench.adapter.pay(order))
    assert bench.adapter.find(order) == Absent()
    assert bench.proxy.let_arrive() == [200]
    assert_made(bench.adapter.find(order), order)


def test_a_rate_limit_is_deferred_for_as_long_as_it_says(bench: ProviderBench) -> None:
    order = payment_order(bench)
    bench.fault(Mode.RATE_LIMIT, seconds=17)
    bench.fault_of_a_look_up(Mode.RATE_LIMIT, seconds=17)
    for outcome in (bench.adapter.pay(order), bench.adapter.find(order)):
        assert isinstance(outcome, Deferred)
        assert (outcome.retry_after_seconds, outcome.stops_account) == (17, False)
    assert_sent_once(bench, order)
    assert bench.money_out(order.payment) == []
