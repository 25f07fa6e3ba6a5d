"""Unknown is not failed: lost answers, doubts, and what is never a silent success (UO-01)."""

from __future__ import annotations

import pytest
from django.utils import timezone

from payments import dispatch
from payments.approval import approve
from payments.capabilities import BY_PROVIDER
from payments.models import PaymentTask
from payments.outcomes import Capabilities
from payments.settlement import ask_again, declare_unpaid
from reconciliation.models import Mismatch
from reconciliation.resolving import resolve
from reconciliation.sweeping import sweep
from returns.errors import InsufficientBalance, Invalid, NotAllowed, WrongState
from returns.states import OperationState, TaskState
from tests import factories
from tests.oracle import nothing_changes, refused
from tests.payments.reading import (
    DAY,
    QUARTER_OF_AN_HOUR,
    calls,
    figures,
    keys_sent,
    made_elsewhere,
    open_mismatch,
    operation_of,
    reserved_payment,
    states_seen,
    stored,
    wait_until,
)
from tests.sandboxes import SandboxProvider
from tests.workers import let_pass, run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

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


# A refusal after a doubt proves nothing by itself.


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
    """A look-up missed the refund that was made, and the provider has forgotten the key since."""
    task = reserved_payment(provider)
    provider.fault("drop_after")
    dispatch.pay(task.pk)
    let_pass(10)
    PaymentTask.objects.filter(pk=task.pk).update(absent_at=timezone.now())
    provider.advance_clock(DAY + 1)
    dispatch.pay(task.pk)
    assert [seen["status"] for seen in provider.refund_requests()] == [200, 400]
    doubted = stored(task)
    assert (doubted.state, doubted.refused_in_doubt) == (TaskState.UNKNOWN, True)

    run_until_done(provider)
    assert stored(task).state == TaskState.SUCCEEDED
    assert len(provider.ledger()) == 1


# A provider that remembers no keys: here a repeat is a second refund.


@pytest.fixture
def keyless(provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch) -> SandboxProvider:
    """The same provider, declared as one that recognises no repeat."""
    declared = Capabilities(key_memory_seconds=None, lookup_lag_seconds=1)
    monkeypatch.setitem(BY_PROVIDER, "stripe", declared)
    return provider


def test_without_keys_nothing_is_sent_again_while_the_first_may_still_arrive(
    keyless: SandboxProvider,
) -> None:
    task = reserved_payment(keyless)
    keyless.fault("drop_before")
    dispatch.pay(task.pk)
    for _ in range(3):
        let_pass(4 * 60)
        sweep(threads=1)
    assert stored(task).absent_at is not None, "asked, and nothing seen"
    assert len(keyless.refund_requests()) == 1

    let_pass(QUARTER_OF_AN_HOUR)
    sweep(threads=1)
    assert stored(task).state == TaskState.SUCCEEDED
    assert len(keyless.refund_requests()) == 2


def test_without_keys_a_request_that_arrives_late_is_found_and_never_repeated(
    keyless: SandboxProvider,
) -> None:
    task = reserved_payment(keyless)
    keyless.fault("drop_before")
    dispatch.pay(task.pk)
    let_pass(60)
    sweep(threads=1)
    refund = made_elsewhere(keyless, task, amount_minor=10_000)
    run_until_done(keyless)
    paid = stored(task)
    assert (paid.state, paid.provider_refund) == (TaskState.SUCCEEDED, refund)
    assert [made["refund"] for made in keyless.ledger()] == [refund]


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
    provider.fault("drop_before")
    dispatch.pay(task.pk)
    let_pass(DAY)
    mismatch = open_mismatch(task)
    assert stored(task).state == TaskState.STUCK

    provider.fault("error_before", match="GET /v1/refunds")
    ask_again(task_id=task.pk, by=factories.finance())
    assert open_mismatch(task) == mismatch, "asking opens no second item"
    refund = made_elsewhere(provider, task, amount_minor=10_000)  # a day late, and yet
    run_until_done(provider)
    paid = stored(task)
    assert (paid.state, paid.provider_refund) == (TaskState.SUCCEEDED, refund)
    assert Mismatch.objects.get(payment=task).status == Mismatch.Status.RESOLVED


def set_aside_unsent(provider: SandboxProvider) -> PaymentTask:
    """A payment whose request never arrived and whose key may be forgotten by now."""
    task = reserved_payment(provider)
    provider.fault("drop_before")
    dispatch.pay(task.pk)
    let_pass(DAY)
    sweep(threads=1)
    assert stored(task).state == TaskState.STUCK
    return task


def test_a_person_decides_on_a_proven_non_payment_and_it_is_owed_again(
    provider: SandboxProvider,
) -> None:
    task = set_aside_unsent(provider)
    mismatch = open_mismatch(task)
    declare_unpaid(task_id=task.pk, by=factories.finance(), reason="not in the bank's list")
    with nothing_changes():
        declare_unpaid(task_id=task.pk, by=factories.finance(), reason="pressed twice")
    assert stored(task).state == TaskState.DECLINED
    assert operation_of(task).state == OperationState.APPROVED
    assert figures(task) == (0, 0, 10_000)
    sweep(threads=1)
    mismatch.refresh_from_db()
    assert mismatch.status == Mismatch.Status.RESOLVED


def test_without_a_look_up_that_agrees_nobody_declares_a_payment_unpaid(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("drop_before")
    dispatch.pay(task.pk)
    made_elsewhere(provider, task, amount_minor=9_999)
    run_until_done(provider)
    assert stored(task).state == TaskState.STUCK
    with refused(WrongState):
        declare_unpaid(task_id=task.pk, by=factories.finance(), reason="I think so")
    with refused(Invalid):
        declare_unpaid(task_id=task.pk, by=factories.finance(), reason=" ")
    with refused(NotAllowed, code="role"):
        declare_unpaid(task_id=task.pk, by=factories.desk(), reason="quicker")


def test_an_item_is_not_closed_while_its_payment_is_set_aside(provider: SandboxProvider) -> None:
    task = set_aside_unsent(provider)
    mismatch = open_mismatch(task)
    with refused(WrongState):
        resolve(
            mismatch_id=mismatch.pk,
            by=factories.finance(),
            resolution="accept",
            reason="enough of it",
        )
