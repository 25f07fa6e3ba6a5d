"""The whole product with each provider: whatever gets lost, exactly one money-out per wire key.

Order in, intake, inspection, approval, workers; the oracle looks at the counterpart's own books.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_django import Settings

from payments import dispatch
from payments.models import PaymentTask
from reconciliation.sweeping import sweep
from returns.errors import InsufficientBalance
from returns.models import Order, OrderBalance, RefundOperation
from returns.order_facts import TenderFacts
from returns.states import OperationState, TaskState
from tests import factories
from tests.conformance.conftest import ProviderBench
from tests.conformance.fault_proxy import Mode
from tests.oracle import refused
from tests.recovery.conftest import WorkerProcess
from tests.workers import at_once, let_pass, run_until_done

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("erp")]

CAPTURED_MINOR = 10_000
# Twelve minutes in all: a request of ours may still be under way.
SHORT_OF_QUIET = [4 * 60] * 3
LEASE_SECONDS = 31


@pytest.fixture
def provider(bench: ProviderBench) -> ProviderBench:
    """Whose books the oracle looks at after each test."""
    return bench


def order_at(bench: ProviderBench) -> Order:
    """An order of one shirt for 100.00 USD, captured at the counterpart."""
    payment = bench.counterpart.capture(CAPTURED_MINOR, "USD")
    card = TenderFacts("card", bench.counterpart.adapter, payment, CAPTURED_MINOR, "Card")
    order: Order = factories.OrderFactory.create(tenders=[card])
    return order


def payment_of(operation: RefundOperation) -> PaymentTask:
    return PaymentTask.objects.select_related("tender").get(operation=operation)


def look_around(pauses: list[int]) -> None:
    """Let these seconds pass, and do after each what is due then."""
    for seconds in pauses:
        let_pass(seconds)
        sweep(threads=1)


def assert_paid_once(bench: ProviderBench, operation: RefundOperation, requests: int) -> None:
    """Posted, after one money-out and so many requests, all under the payment's own key."""
    assert factories.fresh(operation).state == OperationState.POSTED
    task = payment_of(operation)
    (out,) = bench.money_out(task.tender.payment)
    assert (out.wire_key, out.amount) == (str(task.wire_key), CAPTURED_MINOR)
    assert task.provider_refund == out.reference
    assert bench.keys_sent() == [out.wire_key] * requests


def test_a_return_goes_from_the_order_to_the_books(bench: ProviderBench) -> None:
    operation = factories.reserved(order_at(bench))
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=1)


@pytest.mark.parametrize("mode", [Mode.DROP_AFTER, Mode.ERROR_AFTER, Mode.GARBAGE_AFTER])
def test_what_was_paid_and_not_answered_is_found_and_never_sent_again(
    bench: ProviderBench, mode: Mode
) -> None:
    operation = factories.reserved(order_at(bench))
    bench.fault(mode)
    dispatch.pay_operation(operation.pk)
    assert payment_of(operation).state == TaskState.UNKNOWN
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=1)


def test_what_is_answered_after_our_patience_is_found_and_never_sent_again(
    bench: ProviderBench, settings: Settings
) -> None:
    settings.OUTBOUND_TIMING = {**settings.OUTBOUND_TIMING, "call_seconds": 4}
    operation = factories.reserved(order_at(bench))
    bench.fault(Mode.SLOW, seconds=30)
    dispatch.pay_operation(operation.pk)
    assert payment_of(operation).state == TaskState.UNKNOWN
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=1)


@pytest.mark.parametrize("mode", [Mode.DROP_BEFORE, Mode.ERROR_BEFORE])
def test_what_never_arrived_is_sent_again_when_that_is_safe(
    bench: ProviderBench, mode: Mode
) -> None:
    """At once under the same key where it is remembered, else when nothing can be under way."""
    operation = factories.reserved(order_at(bench))
    bench.fault(mode)
    dispatch.pay_operation(operation.pk)
    assert payment_of(operation).state == TaskState.UNKNOWN
    look_around(SHORT_OF_QUIET)
    assert len(bench.keys_sent()) == (2 if bench.counterpart.honours_keys else 1)
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=2)


def test_what_arrives_after_our_look_up_is_still_one_money_out(bench: ProviderBench) -> None:
    operation = factories.reserved(order_at(bench))
    bench.fault(Mode.LATE)
    dispatch.pay_operation(operation.pk)
    look_around(SHORT_OF_QUIET)
    assert payment_of(operation).absent_at is not None, "asked, and nothing seen"
    assert bench.proxy.let_arrive() == [200]
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=2 if bench.counterpart.honours_keys else 1)


def test_a_rate_limit_is_waited_for(bench: ProviderBench) -> None:
    operation = factories.reserved(order_at(bench))
    bench.fault(Mode.RATE_LIMIT, seconds=40)
    dispatch.pay_operation(operation.pk)
    assert payment_of(operation).state == TaskState.PENDING, "certainly not applied: no doubt"
    look_around([30])
    assert len(bench.keys_sent()) == 1
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=2)


def test_look_ups_that_fail_keep_the_doubt_until_one_answers(bench: ProviderBench) -> None:
    operation = factories.reserved(order_at(bench))
    bench.fault(Mode.DROP_AFTER)
    for mode in (Mode.DROP_BEFORE, Mode.ERROR_BEFORE, Mode.GARBAGE_AFTER, Mode.RATE_LIMIT):
        bench.fault_of_a_look_up(mode)
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=1)


def test_killed_between_the_call_and_its_record_the_payment_is_found(
    bench: ProviderBench, start_worker: Callable[..., WorkerProcess]
) -> None:
    operation = factories.reserved(order_at(bench))
    counterpart = bench.counterpart
    start_worker(
        "tests.conformance.workers:pay",
        operation.pk,
        counterpart.adapter,
        vars(counterpart.capabilities),
        # Undone when the process dies: the outcome was written and not committed.
        stop_at="outcome-written",
        **counterpart.settings(bench.proxy.url),
    ).reaches("outcome-written").kill()
    assert payment_of(operation).state == TaskState.SENDING
    assert len(bench.money_out(payment_of(operation).tender.payment)) == 1

    let_pass(LEASE_SECONDS)
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=1)


def test_workers_that_get_the_same_payment_at_once_send_it_once(bench: ProviderBench) -> None:
    operation = factories.reserved(order_at(bench))
    at_once([lambda: dispatch.pay_operation(operation.pk)] * 4)
    run_until_done(bench)
    assert_paid_once(bench, operation, requests=1)


def test_more_than_was_captured_is_refused_by_our_own_balance(bench: ProviderBench) -> None:
    """Even where the counterpart would pay it: at the same moment, and while one is in doubt."""
    order = order_at(bench)
    rivals = [
        factories.inspected(order, items=(), goodwill=factories.goodwill("60.00")) for _ in "ab"
    ]
    decided = at_once([_approval(rival) for rival in rivals])
    assert sorted(type(each).__name__ for each in decided) == [
        "InsufficientBalance",
        "RefundOperation",
    ]
    bench.fault(Mode.DROP_AFTER)
    winner = next(each for each in decided if isinstance(each, RefundOperation))
    loser = next(rival for rival in rivals if rival.pk != winner.pk)
    dispatch.pay_operation(winner.pk)
    with refused(InsufficientBalance, remaining="40.00"):
        factories.approved_by(factories.manager(), loser)

    run_until_done(bench)
    balance = OrderBalance.objects.get(order=order)
    assert (balance.reserved_minor, balance.refunded_minor) == (0, 6000)
    assert [out.amount for out in bench.money_out(payment_of(winner).tender.payment)] == [6000]


def test_partial_refunds_up_to_the_last_cent_are_one_money_out_each(bench: ProviderBench) -> None:
    order = order_at(bench)
    # Two of them equal: no rule may take the second for the first.
    for amount in ("33.33", "33.33", "33.34"):
        bench.fault(Mode.DROP_AFTER)
        factories.reserved(order, items=(), goodwill=factories.goodwill(amount))
    run_until_done(bench)
    tasks = PaymentTask.objects.filter(operation__order=order).select_related("tender")
    outs = bench.money_out(tasks[0].tender.payment)
    assert sorted(out.amount for out in outs) == [3333, 3333, 3334]
    assert {out.wire_key for out in outs} == {str(task.wire_key) for task in tasks}
    assert set(tasks.values_list("state", flat=True)) == {TaskState.SUCCEEDED}


def _approval(operation: RefundOperation) -> Callable[[], RefundOperation]:
    return lambda: factories.approved_by(factories.manager(), operation)
