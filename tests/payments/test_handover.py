"""Money that a person hands back: said twice, once before and once after, with a receipt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from payments import dispatch, handover
from payments.models import PaymentTask
from payments.recovery import due_payments
from payments.settlement import declare_unpaid
from reconciliation.mismatches import close_righted, open_new
from reconciliation.models import Mismatch
from returns.errors import Invalid, NotAllowed, WrongState
from returns.models import RefundOperation
from tests import factories
from tests.factories import cash, desk, manager
from tests.oracle import nothing_changes, refused
from tests.workers import let_pass

pytestmark = pytest.mark.django_db


@pytest.fixture
def task() -> PaymentTask:
    """100.00 in cash, reserved and not yet handed over."""
    order = factories.OrderFactory.create(tenders=[cash(10_000)])
    return factories.reserved(order).payments.get()


def operation_of(task: PaymentTask) -> RefundOperation:
    return factories.fresh(task.operation)


def start(task: PaymentTask, by: Any = None) -> PaymentTask:
    return handover.start(task_id=task.pk, by=by or desk())


def confirm(task: PaymentTask, reference: str = "receipt-1") -> PaymentTask:
    return handover.confirm(task_id=task.pk, by=desk(), reference=reference)


def abandon(task: PaymentTask, reason: str = "the till was empty") -> PaymentTask:
    return handover.abandon(task_id=task.pk, by=desk(), reason=reason)


def test_money_handed_over_with_a_receipt_is_paid(task: PaymentTask) -> None:
    start(task)
    under_way = operation_of(task)
    assert (under_way.state, under_way.refunded_minor) == ("reserved", 0)
    confirm(task, "  receipt-1 ")
    done = operation_of(task)
    assert (done.state, done.refunded_minor, done.order.balance.refunded_minor) == (
        "paid",
        10_000,
        10_000,
    )
    task.refresh_from_db(fields=["provider_refund"])
    assert task.provider_refund == "receipt-1"
    steps = task.attempts.order_by("pk").values_list("step", "worker")
    assert [step for step, _ in steps] == ["started", "ended"]


def test_while_one_hands_it_over_nobody_else_does(task: PaymentTask) -> None:
    start(task)
    with nothing_changes():
        assert start(task).handed_over_by == desk()
    with refused(WrongState, state="sending"):
        start(task, manager())


def test_no_worker_ever_sends_it(task: PaymentTask) -> None:
    let_pass(3600)
    with nothing_changes():
        assert due_payments() == []


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_told_to_pay_it_leaves_it_alone() -> None:
    order = factories.OrderFactory.create(tenders=[cash(10_000)])
    operation = factories.reserved(order)
    with nothing_changes():
        assert dispatch.pay_operation(operation.pk) == 0


def test_the_same_receipt_again_changes_nothing(task: PaymentTask) -> None:
    start(task)
    confirm(task)
    with nothing_changes():
        assert confirm(task).state == "succeeded"


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (lambda task: confirm(task, "receipt-2"), "succeeded"),
        (abandon, "succeeded"),
        (start, "succeeded"),
    ],
)
def test_what_was_handed_over_stays_handed_over(
    task: PaymentTask, then: Callable[[PaymentTask], object], why: str
) -> None:
    start(task)
    confirm(task)
    with refused(WrongState, state=why):
        then(task)


def test_nothing_is_confirmed_that_was_not_announced(task: PaymentTask) -> None:
    with refused(WrongState, state="pending"):
        confirm(task)
    with refused(WrongState, state="pending"):
        abandon(task)


@pytest.mark.parametrize("reference", ["", "   ", "x" * 201])
def test_a_receipt_needs_a_number(task: PaymentTask, reference: str) -> None:
    start(task)
    with refused(Invalid) as refusal:
        confirm(task, reference)
    assert list(refusal.value.fields) == ["reference"]


def test_one_receipt_proves_one_payment(task: PaymentTask) -> None:
    start(task)
    confirm(task, "receipt-1")
    order = factories.OrderFactory.create(tenders=[cash(10_000)])
    second = factories.reserved(order).payments.get()
    start(second)
    with refused(Invalid) as refusal:
        confirm(second, "receipt-1")
    assert list(refusal.value.fields) == ["reference"]


def test_money_that_was_not_handed_over_after_all_waits_again(task: PaymentTask) -> None:
    start(task)
    abandon(task)
    waiting = operation_of(task)
    assert (waiting.state, waiting.order.balance.reserved_minor) == ("reserved", 10_000)
    with nothing_changes():
        abandon(task)
    start(task, manager())
    confirm(task)
    assert operation_of(task).state == "paid"


def test_only_whoever_began_a_hand_over_gives_it_up_or_a_manager(task: PaymentTask) -> None:
    start(task)
    with refused(NotAllowed, code="role"):
        handover.abandon(task_id=task.pk, by=factories.person("other", "desk"), reason="mine")
    handover.abandon(task_id=task.pk, by=manager(), reason="the drawer was empty")
    assert operation_of(task).state == "reserved"


def test_what_cannot_be_handed_over_is_owed_again_by_a_persons_decision(task: PaymentTask) -> None:
    declare_unpaid(task_id=task.pk, by=manager(), reason="the customer wants a transfer")
    owed = operation_of(task)
    assert (owed.state, owed.order.balance.reserved_minor) == ("approved", 0)


def test_giving_up_needs_a_reason(task: PaymentTask) -> None:
    start(task)
    with refused(Invalid) as refusal:
        abandon(task, "  ")
    assert list(refusal.value.fields) == ["reason"]


@pytest.mark.parametrize("role", ["admin", "integration"])
def test_programs_hand_nothing_over(task: PaymentTask, role: str) -> None:
    with refused(NotAllowed, code="role"):
        start(task, factories.person("somebody", role))


def test_a_card_is_not_paid_by_hand() -> None:
    task = factories.reserved().payments.get()
    for step in (start, confirm, abandon):
        with refused(WrongState):
            step(task)


def test_a_handover_that_nobody_ended_is_brought_to_a_person(task: PaymentTask) -> None:
    start(task)
    assert open_new() == 0
    let_pass(3601)
    assert open_new() == 1
    assert Mismatch.objects.get().payment == task
    confirm(task)
    assert close_righted() == 1


def test_two_tenders_are_paid_each_on_its_own() -> None:
    order = factories.OrderFactory.create(tenders=[cash(6_000), cash(4_000, "gift")])
    operation = factories.reserved(order)
    first, second = operation.payments.order_by("pk")
    factories.hand_over(first)
    assert factories.fresh(operation).state == "reserved"
    assert factories.fresh(operation).refunded_minor == 6_000
    factories.hand_over(second)
    assert factories.fresh(operation).state == "paid"
