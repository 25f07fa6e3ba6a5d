"""A worker's step with a payment, against the real sandbox: what goes out and what is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.db import connection, transaction
from django.utils import timezone

from payments import dispatch
from payments.approval import approve
from payments.models import PaymentAttempt, PaymentTask, ProviderHalt
from payments.settlement import ask_again
from reconciliation.models import Mismatch
from reconciliation.sweeping import sweep
from returns.errors import InsufficientBalance
from returns.models import OrderBalance, RefundOperation
from returns.states import OperationState, TaskState
from tests import factories
from tests.oracle import refused
from tests.sandboxes import Json, SandboxProvider
from tests.workers import at_once, let_pass, run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

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


# The ordinary way.


def test_a_payment_is_one_call_and_moves_the_money_from_held_to_gone(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    assert figures(task) == (10_000, 0, 0)
    assert dispatch.pay(task.pk) == 1
    paid = stored(task)
    assert (paid.state, paid.provider_refund) == (
        TaskState.SUCCEEDED,
        provider.ledger()[0]["refund"],
    )
    assert operation_of(task).state == OperationState.PAID
    assert figures(task) == (0, 10_000, 0)
    assert keys_sent(provider) == [str(task.wire_key)]
    assert calls(task) == [("send", "started", ""), ("send", "ended", "settled")]


def test_nothing_is_sent_inside_a_transaction(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    with pytest.raises(RuntimeError, match="inside a transaction"), transaction.atomic():
        dispatch.pay(task.pk)
    assert provider.refund_requests() == []
    assert stored(task).state == TaskState.PENDING


def test_a_payment_that_is_being_made_is_not_made_again(provider: SandboxProvider) -> None:
    """RC-02: the queue delivers the job again and again while the first delivery still runs."""
    task = reserved_payment(provider)
    provider.fault("slow", seconds=1)

    def first_delivery() -> None:
        dispatch.pay_operation(task.operation_id)
        connection.close()

    first = threading.Thread(target=first_delivery)
    first.start()
    wait_until(lambda: len(provider.refund_requests()) == 1)
    assert [dispatch.pay_operation(task.operation_id) for _ in range(3)] == [0, 0, 0]
    first.join()
    assert stored(task).state == TaskState.SUCCEEDED
    assert len(provider.refund_requests()) == 1


def test_workers_that_start_at_the_same_moment_make_one_call(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    made = at_once([lambda: dispatch.pay_operation(task.operation_id)] * 4)
    assert sorted(str(n) for n in made) == ["0", "0", "0", "1"]
    assert len(provider.refund_requests()) == 1
    assert calls(task) == [("send", "started", ""), ("send", "ended", "settled")]


# Unknown is not failed (UO-01).


def test_accepted_and_then_dropped_is_unknown_and_found_later(provider: SandboxProvider) -> None:
    order = factories.OrderFactory.create(lines=[factories.line(quantity=2)])
    task = reserved_payment(provider, order=order)
    provider.fault("drop_after")
    dispatch.pay(task.pk)
    assert stored(task).state == TaskState.UNKNOWN
    assert operation_of(task).state == OperationState.RESERVED
    assert figures(task) == (10_000, 0, 10_000), "the money stays held"

    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    assert figures(task) == (0, 10_000, 10_000)
    assert len(provider.refund_requests()) == 1, "found by asking, not by sending again"
    assert TaskState.DECLINED not in states_seen(task)


def test_what_an_unknown_payment_holds_cannot_be_approved_again(
    provider: SandboxProvider,
) -> None:
    order = factories.OrderFactory.create(lines=[factories.line(quantity=2)])
    task = reserved_payment(provider, order=order)
    more = factories.inspected(order, items=(), goodwill=factories.goodwill("100.00"))
    other = factories.inspected(order, items=(), goodwill=factories.goodwill("0.01"))
    provider.fault("drop_after")
    dispatch.pay(task.pk)
    factories.approved_by(factories.manager(), more)
    with refused(InsufficientBalance, remaining="0.00"):
        approve(operation_key=other.operation_key, by=factories.manager(), amount_minor=1)


def test_dropped_before_it_arrived_is_sent_again_with_the_same_key(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_before")
    dispatch.pay(task.pk)
    assert stored(task).state == TaskState.UNKNOWN
    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    assert keys_sent(provider) == [str(task.wire_key)] * 2
    assert [purpose for purpose, step, _ in calls(task) if step == "ended"] == [
        "send",
        "ask",
        "send",
    ]


@pytest.mark.parametrize("fault", ["error_before", "error_after", "garbage_after"])
def test_every_other_lost_answer_ends_in_exactly_one_refund(
    provider: SandboxProvider, fault: str
) -> None:
    task = reserved_payment(provider)
    provider.fault(fault)
    dispatch.pay(task.pk)
    assert stored(task).state == TaskState.UNKNOWN
    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    assert len(provider.ledger()) == 1
    assert TaskState.DECLINED not in states_seen(task)


def test_a_request_that_arrives_late_and_its_repeat_are_one_refund(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("late", seconds=1)
    dispatch.pay(task.pk)
    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    # Seen when it was lost, when we sent again, and when it arrived after all.
    wait_until(lambda: len(provider.refund_requests()) == 3)
    assert len(provider.ledger()) == 1


def test_a_look_up_without_an_answer_backs_off_and_keeps_the_doubt(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_after")
    provider.fault("error_before", match="GET /v1/refunds", times=3)
    dispatch.pay(task.pk)
    waits = []
    for _ in range(3):
        let_pass(QUARTER_OF_AN_HOUR)
        sweep(threads=1)
        doubted = stored(task)
        assert (doubted.state, doubted.in_doubt) == (TaskState.UNKNOWN, True)
        assert doubted.next_look_at is not None
        waits.append((doubted.next_look_at - timezone.now()).total_seconds())
    assert waits == sorted(waits)
    assert len(provider.refund_requests()) == 1
    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED


def test_a_doubt_that_lasts_is_put_before_a_person_and_closed_when_it_clears(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_after")
    provider.fault("error_before", match="GET /v1/refunds", times=2)
    dispatch.pay(task.pk)
    let_pass(2 * 60 * 60)
    mismatch = open_mismatch(task)
    assert (mismatch.kind, mismatch.at_stake_minor) == (Mismatch.Kind.STUCK_PAYMENT, 10_000)
    let_pass(QUARTER_OF_AN_HOUR)
    assert open_mismatch(task) == mismatch, "the same doubt is the same item"
    run_until_done(provider)
    closed = Mismatch.objects.get(payment=task)
    assert (closed.status, closed.resolution) == ("resolved", "righted")


# Refusals.


def test_a_refusal_of_the_first_attempt_gives_the_money_back_and_pays_under_a_new_key(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("decline")
    dispatch.pay(task.pk)
    assert stored(task).state == TaskState.DECLINED
    assert operation_of(task).state == OperationState.APPROVED
    assert figures(task) == (0, 0, 10_000)

    operation = factories.approved_by(factories.manager(), operation_of(task))
    second = operation.payments.exclude(pk=task.pk).get()
    dispatch.pay(second.pk)
    assert factories.fresh(operation).state == OperationState.PAID
    assert keys_sent(provider) == [str(task.wire_key), str(second.wire_key)]
    assert task.wire_key != second.wire_key


def test_a_refusal_after_a_doubt_stays_unknown_until_a_quiet_look_up_agrees(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_before")
    provider.fault("decline")
    dispatch.pay(task.pk)
    let_pass(10)
    sweep(threads=1)
    assert len(provider.refund_requests()) == 2
    doubted = stored(task)
    assert (doubted.state, doubted.refused_in_doubt) == (TaskState.UNKNOWN, True)

    let_pass(10 * 60)
    sweep(threads=1)
    assert stored(task).state == TaskState.UNKNOWN, "the first request may still be on its way"
    assert figures(task) == (10_000, 0, 0)
    assert len(provider.refund_requests()) == 2, "nothing is sent again after a refusal"

    let_pass(QUARTER_OF_AN_HOUR)
    sweep(threads=1)
    assert stored(task).state == TaskState.DECLINED
    assert operation_of(task).state == OperationState.APPROVED
    assert figures(task) == (0, 0, 10_000)


def test_already_refunded_after_a_doubt_was_our_own_refund(provider: SandboxProvider) -> None:
    """The provider has forgotten the saved answer of the refund it made; then it refuses more."""
    task = reserved_payment(provider)
    # The look-up that would find the refund gets no answer; somebody sends again all the same.
    provider.fault("drop_after")
    dispatch.pay(task.pk)
    provider.advance_clock(25 * 60 * 60)
    PaymentTask.objects.filter(pk=task.pk).update(absent_at=timezone.now())
    let_pass(10)
    PaymentTask.objects.filter(pk=task.pk).update(absent_at=timezone.now())
    dispatch.pay(task.pk)
    assert [seen["status"] for seen in provider.refund_requests()] == [200, 400]
    refused_once = stored(task)
    assert (refused_once.state, refused_once.refused_in_doubt) == (TaskState.UNKNOWN, True)

    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    assert len(provider.ledger()) == 1


def test_a_refund_that_fails_under_way_is_a_definite_decline(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    provider.fault("pending")
    dispatch.pay(task.pk)
    held = stored(task)
    assert held.state == TaskState.ACCEPTED
    assert operation_of(task).state == OperationState.RESERVED, "accepted is not refunded"
    provider.move_refund(str(held.provider_refund), "failed")
    run_until_done(provider)
    assert stored(task).state == TaskState.DECLINED
    assert figures(task) == (0, 0, 10_000)


def test_one_tender_declined_keeps_what_the_other_has_paid(provider: SandboxProvider) -> None:
    order = factories.OrderFactory.create(
        tenders=[factories.card(6000, "first"), factories.card(4000, "second")]
    )
    operation = factories.reserved(order)
    provider.know_payments()
    first, second = operation.payments.order_by("pk")
    provider.fault("decline", match=f"POST /v1/refunds payment_intent={first.tender.payment}")
    dispatch.pay_operation(operation.pk)
    assert (stored(first).state, stored(second).state) == (TaskState.DECLINED, TaskState.SUCCEEDED)
    operation = factories.fresh(operation)
    assert (operation.state, operation.refunded_minor) == (OperationState.APPROVED, 4000)
    assert figures(first) == (0, 4000, 6000)

    factories.approved_by(factories.manager(), operation)
    run_until_done(provider)
    assert factories.fresh(operation).state == OperationState.PAID
    assert sorted(refund["amount"] for refund in provider.ledger()) == [4000, 6000]


# What is never a silent success.


def test_another_amount_under_our_key_is_for_a_person(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_before")
    dispatch.pay(task.pk)
    refund = made_elsewhere(provider, task, amount_minor=9_999)
    let_pass(10)
    mismatch = open_mismatch(task)
    assert (mismatch.kind, mismatch.payment) == (Mismatch.Kind.AMOUNT_DIFFERS, task)
    assert refund in mismatch.detail
    stuck = stored(task)
    assert (stuck.state, stuck.next_look_at) == (TaskState.STUCK, None)
    assert operation_of(task).state == OperationState.RESERVED
    assert figures(task) == (10_000, 0, 0)
    assert TaskState.SUCCEEDED not in states_seen(task)

    # Asking again finds the same; it is not sent again however often it is asked.
    ask_again(task_id=task.pk, by=factories.finance())
    run_until_done(provider)
    assert stored(task).state == TaskState.STUCK
    assert len(provider.refund_requests()) == 2


def test_another_currency_under_our_key_is_for_a_person(provider: SandboxProvider) -> None:
    operation = factories.reserved()
    task = PaymentTask.objects.get(operation=operation)
    seed = {"payment": task.tender.payment, "amount": 10_000, "currency": "EUR"}
    provider.control("payments", [seed])
    dispatch.pay(task.pk)
    assert open_mismatch(task).kind == Mismatch.Kind.CURRENCY_DIFFERS
    assert stored(task).state == TaskState.STUCK
    assert TaskState.SUCCEEDED not in states_seen(task)


def test_after_the_key_may_be_forgotten_nothing_is_sent_and_a_person_is_asked(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_before")
    provider.fault("error_before", match="GET /v1/refunds", times=1)
    dispatch.pay(task.pk)
    let_pass(DAY - 60 * 60)
    sweep(threads=1)
    let_pass(QUARTER_OF_AN_HOUR)
    mismatch = open_mismatch(task)
    stuck = stored(task)
    assert (stuck.state, stuck.attention) == (TaskState.STUCK, "window_closed")
    assert mismatch.kind == Mismatch.Kind.STUCK_PAYMENT
    assert len(provider.refund_requests()) == 1
    assert figures(task) == (10_000, 0, 0), "held until a person knows better"


def test_a_person_can_have_a_payment_asked_about_that_was_set_aside(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_after")
    provider.fault("error_before", match="GET /v1/refunds", times=1)
    dispatch.pay(task.pk)
    let_pass(2)
    PaymentTask.objects.filter(pk=task.pk).update(
        state=TaskState.STUCK, next_look_at=None, attention="window_closed"
    )
    mismatch = open_mismatch(task)
    ask_again(task_id=task.pk, by=factories.finance())
    sweep(threads=1)
    assert open_mismatch(task) == mismatch, "asking opens no second item"
    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    assert Mismatch.objects.get(payment=task).status == Mismatch.Status.RESOLVED


# Credentials and rate limits.


def test_refused_credentials_stop_the_provider_until_then(provider: SandboxProvider) -> None:
    first = reserved_payment(provider)
    second = reserved_payment(provider)
    provider.fault("unauthorized")
    dispatch.pay(first.pk)
    assert stored(first).state == TaskState.PENDING
    halt = ProviderHalt.objects.get(provider="stripe")
    rests_seconds = (halt.until - timezone.now()).total_seconds()
    assert 0 < rests_seconds <= dispatch.HALT.total_seconds()
    assert "account_refused" in open_mismatch(first).detail

    let_pass(rests_seconds - 30)
    sweep(threads=1)
    dispatch.pay(second.pk)
    assert len(provider.refund_requests()) == 1, "nothing leaves before the halt is over"

    let_pass(31)
    sweep(threads=1)
    assert [stored(task).state for task in (first, second)] == [TaskState.SUCCEEDED] * 2
    assert keys_sent(provider).count(str(first.wire_key)) == 2
    assert Mismatch.objects.get(payment=first).status == Mismatch.Status.RESOLVED


def test_a_rate_limit_is_waited_out_with_the_same_key(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    provider.fault("rate_limit", seconds=60)
    dispatch.pay(task.pk)
    waiting = stored(task)
    assert (waiting.state, waiting.in_doubt) == (TaskState.PENDING, False)
    dispatch.pay(task.pk)
    let_pass(50)
    sweep(threads=1)
    assert len(provider.refund_requests()) == 1
    let_pass(11)
    sweep(threads=1)
    assert stored(task).state == TaskState.SUCCEEDED
    assert keys_sent(provider) == [str(task.wire_key)] * 2


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
