"""A yes is given by somebody else, within limits, to exactly one amount, split and set of goods."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from payments import outbound
from payments.approval import Seen, approve
from payments.models import PaymentTask
from payments.outcomes import Refused
from payments.protocol import Verdict
from payments.settlement import lock_task, take_effect
from returns.errors import (
    InsufficientBalance,
    Invalid,
    Missing,
    NotAllowed,
    RefundDeskError,
    Stale,
    WrongState,
)
from returns.identity import operation_key
from returns.inspection import UnitFound
from returns.intake import open_or_join
from returns.models import Order, RefundOperation, RefusedAttempt
from returns.return_request import Item
from tests import factories
from tests.factories import (
    approved_by,
    card,
    cash,
    goodwill,
    line,
    manager,
    request_for,
    second_manager,
    worth_minor,
)
from tests.oracle import nothing_changes, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def order() -> Order:
    """100.00 on one card."""
    return factories.OrderFactory.create()


@pytest.fixture
def split_order() -> Order:
    """100.00 of goods: 60.00 by card, 40.00 by gift card."""
    return factories.OrderFactory.create(tenders=[card(6_000), cash(4_000, "gift")])


@pytest.fixture
def costly() -> RefundOperation:
    """6000.00 by card and cash: above what one manager may approve alone."""
    order = factories.OrderFactory.create(
        lines=[line(price_minor=600_000)], tenders=[card(400_000), cash(200_000)]
    )
    return factories.inspected(order)


def goodwill_of(order: Order, amount: str) -> RefundOperation:
    return factories.inspected(order, items=(), goodwill=goodwill(amount))


def paid_on(operation: RefundOperation) -> dict[str, int]:
    tasks = operation.payments.select_related("tender").order_by("pk")
    return {task.tender.tender_id: task.amount_minor for task in tasks}


# One yes.


def test_a_yes_reserves_the_money_and_records_who_said_it(order: Order) -> None:
    operation = factories.reserved(order)
    approval = operation.approvals.get()
    assert (operation.state, operation.amount_minor, operation.pay_rounds) == (
        "reserved",
        10_000,
        1,
    )
    assert (approval.approved_by, approval.amount_minor) == (manager(), 10_000)
    assert operation.order.balance.reserved_minor == 10_000
    verbs = operation.events.order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["take_in", "inspect", "approve", "reserve"]


def test_less_than_the_goods_are_worth_may_be_approved(order: Order) -> None:
    operation = factories.reserved(order, amount_minor=2_500)
    assert (operation.amount_minor, operation.order.balance.remaining_minor) == (2_500, 7_500)


def test_only_units_found_good_count() -> None:
    order = factories.OrderFactory.create(lines=[line("mug", 1_000, 3)])
    operation = factories.inspected(
        order, items=(Item("mug", quantity=3),), rejected=[UnitFound("mug", 2)]
    )
    assert worth_minor(operation) == 2_000
    with refused(Invalid) as refusal:
        approved_by(manager(), operation, 2_001)
    assert refusal.value.fields == {"amount": "What came back is worth 20.00, as it was sold."}
    assert approved_by(manager(), operation).amount_minor == 2_000


@pytest.mark.parametrize("amount_minor", [0, -1, -1_000])
def test_nothing_and_less_than_nothing_are_no_amounts(order: Order, amount_minor: int) -> None:
    operation = factories.inspected(order)
    with refused(Invalid) as refusal:
        approved_by(manager(), operation, amount_minor)
    assert list(refusal.value.fields) == ["amount"]


# What is left.


def test_more_than_is_left_is_refused_with_the_remainder(order: Order) -> None:
    first, second, third, fourth = (
        goodwill_of(order, amount) for amount in ("60.00", "60.00", "40.01", "40.00")
    )
    approved_by(manager(), first)
    with refused(InsufficientBalance, remaining="40.00", currency="USD"):
        approved_by(manager(), second)
    with refused(InsufficientBalance, remaining="40.00"):
        approved_by(manager(), third)
    assert approved_by(manager(), fourth).state == "reserved"
    order.balance.refresh_from_db()
    assert (order.balance.reserved_minor, order.balance.remaining_minor) == (10_000, 0)


def test_a_tender_never_pays_back_more_than_it_brought(split_order: Order) -> None:
    operation = factories.inspected(split_order)
    with refused(InsufficientBalance, remaining="40.00"):
        approved_by(manager(), operation, 4_001, {"gift": 4_001})
    assert paid_on(approved_by(manager(), operation, 4_000, {"gift": 4_000})) == {"gift": 4_000}


def test_without_a_split_the_first_tender_pays_first(split_order: Order) -> None:
    assert paid_on(approved_by(manager(), goodwill_of(split_order, "50.00"))) == {"card": 5_000}
    second = approved_by(manager(), goodwill_of(split_order, "30.00"))
    assert paid_on(second) == {"card": 1_000, "gift": 2_000}


@pytest.mark.parametrize(
    "tenders",
    [
        {"card": 15_000, "gift": -5_000},
        {"card": 10_000, "gift": 0},
        {"card": 5_000},
        {"card": 6_000, "gift": 4_001},
        {"card": 6_000, "purse": 4_000},
        {},
    ],
)
def test_a_split_that_does_not_add_up_is_refused(
    split_order: Order, tenders: Mapping[str, int]
) -> None:
    operation = factories.inspected(split_order)
    with refused(Invalid) as refusal:
        approved_by(manager(), operation, 10_000, tenders)
    assert list(refusal.value.fields) == ["tenders"]


# Who.


def test_nobody_approves_their_own_intake(order: Order) -> None:
    both = factories.person("both", "desk", "manager")
    operation = factories.inspected(order, by=both)
    with refused(NotAllowed, code="own_intake"):
        approved_by(both, operation)
    attempt = RefusedAttempt.objects.get()
    assert (attempt.by, attempt.operation, attempt.code) == (both, operation, "own_intake")
    assert attempt.facts["asked"]["amount_minor"] == 10_000


def test_nobody_approves_what_they_inspected_or_joined(order: Order) -> None:
    operation = factories.inspected(order, by=factories.person("clerk", "desk"))
    factories.received(order, by=manager(), channel="phone")
    inspector = factories.person("desk", "desk", "manager")
    for somebody in (inspector, manager()):
        with refused(NotAllowed, code="own_intake"):
            approved_by(somebody, operation)
    assert approved_by(second_manager(), operation).state == "reserved"


def test_people_are_told_apart_by_their_id_and_not_by_their_name(order: Order) -> None:
    operation = factories.inspected(order, by=factories.person("anna", "manager"))
    assert approved_by(factories.person("Anna", "manager"), operation).state == "reserved"


@pytest.mark.parametrize("role", ["desk", "finance", "admin", "integration"])
def test_only_managers_approve(order: Order, role: str) -> None:
    operation = factories.inspected(order)
    with refused(NotAllowed, code="role"):
        approved_by(factories.person("somebody", role), operation)


# How much.


def test_above_the_limit_of_managers_nobody_says_yes() -> None:
    order = factories.OrderFactory.create(lines=[line(price_minor=2_000_001)])
    operation = factories.inspected(order)
    with refused(NotAllowed, code="over_limit", limit="20000.00", currency="USD"):
        approved_by(manager(), operation)


def test_a_large_amount_waits_for_a_second_person(costly: RefundOperation) -> None:
    first = approved_by(manager(), costly)
    assert (first.state, first.amount_minor, first.order.balance.reserved_minor) == (
        "approved",
        600_000,
        0,
    )
    assert not PaymentTask.objects.exists()
    second = approved_by(second_manager(), costly)
    assert (second.state, second.order.balance.reserved_minor) == ("reserved", 600_000)
    assert second.approvals.count() == 2


def test_the_same_person_twice_is_one_person(costly: RefundOperation) -> None:
    approved_by(manager(), costly)
    with nothing_changes():
        assert approved_by(manager(), costly).state == "approved"


def test_the_second_yes_must_be_to_the_same_amount(costly: RefundOperation) -> None:
    approved_by(manager(), costly, 550_000)
    with refused(Invalid) as refusal:
        approved_by(second_manager(), costly, 600_000)
    assert refusal.value.fields == {"amount": "5500.00 of this return is approved and still owed."}


def test_the_second_yes_may_name_the_destination_that_the_first_took(
    costly: RefundOperation,
) -> None:
    approved_by(manager(), costly)
    named = approved_by(second_manager(), costly, 600_000, {"card": 400_000, "cash": 200_000})
    assert (named.state, named.approvals.values("digest").distinct().count()) == ("reserved", 1)


def test_two_people_must_agree_on_the_destination(costly: RefundOperation) -> None:
    order = costly.order
    approved_by(manager(), costly, 550_000, {"card": 400_000, "cash": 150_000})
    other = approved_by(second_manager(), costly, 550_000, {"card": 350_000, "cash": 200_000})
    assert (other.state, other.approvals.count()) == ("approved", 2)
    order.balance.refresh_from_db()
    assert order.balance.reserved_minor == 0
    third = factories.person("third-manager", "manager")
    agreed = approved_by(third, costly, 550_000, {"card": 350_000, "cash": 200_000})
    assert (agreed.state, paid_on(agreed)) == ("reserved", {"card": 350_000, "cash": 200_000})


def test_the_second_person_is_not_one_who_took_it_in(costly: RefundOperation) -> None:
    approved_by(manager(), costly)
    helpful = second_manager()
    factories.received(costly.order, by=helpful, channel="phone")
    with refused(NotAllowed, code="own_intake"):
        approved_by(helpful, costly)


def test_money_that_went_elsewhere_meanwhile_is_not_there_for_the_second_yes(
    costly: RefundOperation,
) -> None:
    approved_by(manager(), costly)
    other = approved_by(manager(), goodwill_of(costly.order, "10.00"))
    assert other.state == "reserved"
    with refused(InsufficientBalance, remaining="5990.00"):
        approved_by(second_manager(), costly)


# Again.


@pytest.mark.parametrize("somebody", [manager, second_manager])
def test_a_yes_repeated_after_it_took_effect_changes_nothing(
    order: Order, somebody: Callable[[], User]
) -> None:
    operation, by = factories.reserved(order), somebody()
    with nothing_changes():
        again = approved_by(by, operation, 10_000)
        named = approved_by(by, operation, 10_000, {"card": 10_000})
    assert (again.state, named.state) == ("reserved", "reserved")


def test_a_yes_repeated_after_the_payment_changes_nothing() -> None:
    operation = factories.paid(factories.OrderFactory.create(tenders=[cash(10_000)]))
    with nothing_changes():
        assert approved_by(manager(), operation, 10_000).state == "paid"


@pytest.mark.parametrize(
    ("amount_minor", "tenders"), [(9_999, None), (10_000, {"card": 5_000, "gift": 5_000})]
)
def test_another_yes_after_the_first_took_effect_is_refused(
    split_order: Order, amount_minor: int, tenders: Mapping[str, int] | None
) -> None:
    operation = factories.reserved(split_order)
    with refused(WrongState, state="reserved"):
        approved_by(second_manager(), operation, amount_minor, tenders)


# When.


def test_only_an_inspected_return_is_approved(order: Order) -> None:
    operation = factories.received(order)
    with refused(WrongState, code="wrong_state", state="received"):
        approved_by(manager(), operation)


def test_an_unknown_return_is_said_to_be_unknown() -> None:
    key = operation_key("W0", "shipping", 0)
    with refused(Missing, code="unknown_return"):
        approve(operation_key=key, by=manager(), amount_minor=1)


def test_a_decision_on_an_older_version_is_refused(order: Order) -> None:
    operation = factories.inspected(order)
    with refused(Stale, code="stale", version=2, changed_by="desk", change="inspect"):
        approve(
            operation_key=operation.operation_key,
            by=manager(),
            amount_minor=10_000,
            seen=Seen(version=1),
        )


def test_a_decision_on_an_older_balance_is_refused_with_both_figures(order: Order) -> None:
    seen = Seen(remaining_minor=order.balance.remaining_minor)
    operation = goodwill_of(order, "20.00")
    approved_by(manager(), goodwill_of(order, "30.00"))
    with refused(Stale, remaining="70.00", seen="100.00", currency="USD"):
        approve(operation_key=operation.operation_key, by=manager(), amount_minor=2_000, seen=seen)
    approve(
        operation_key=operation.operation_key,
        by=manager(),
        amount_minor=2_000,
        seen=Seen(version=operation.version, remaining_minor=7_000),
    )
    assert factories.fresh(operation).state == "reserved"


def test_every_refusal_is_kept_with_who_asked_for_what(order: Order) -> None:
    operation = factories.inspected(order)
    with pytest.raises(RefundDeskError):
        approved_by(manager(), operation, 10_001)
    attempt = RefusedAttempt.objects.get()
    assert (attempt.verb, attempt.code, attempt.by) == (
        "approve",
        "insufficient_balance",
        manager(),
    )
    assert (attempt.operation, attempt.order) == (operation, order)
    assert attempt.facts["said"] == {"remaining": "100.00", "currency": "USD"}


# What it costs.


@pytest.mark.parametrize("tenders", [1, 3])
def test_a_yes_takes_at_most_fifteen_statements_whatever_the_number_of_lines(
    tenders: int,
) -> None:
    counted = [statements_to_approve(lines, tenders) for lines in (1, 10, 50)]
    assert max(counted) <= 15
    assert len(set(counted)) == 1


def statements_to_approve(lines: int, tenders: int) -> int:
    order = factories.OrderFactory.create(
        lines=[line(f"line-{number}", 300) for number in range(lines)],
        tenders=[card(lines * 300 // tenders, f"card-{number}") for number in range(tenders)],
    )
    items = tuple(Item(f"line-{number}", 1) for number in range(lines))
    operation, by = factories.inspected(order, items=items), manager()
    with CaptureQueriesContext(connection) as captured:
        approve(
            operation_key=operation.operation_key,
            by=by,
            amount_minor=300 * lines,
            seen=Seen(version=operation.version, remaining_minor=300 * lines),
        )
    frame = re.compile(r"(RELEASE )?SAVEPOINT|BEGIN|COMMIT")
    return sum(1 for query in captured.captured_queries if not frame.match(query["sql"]))


def test_the_second_person_stands_by_the_split_that_the_first_agreed_to() -> None:
    """A refund in between must not leave two people each with a split of their own."""
    order = factories.OrderFactory.create(
        lines=[line(price_minor=600_000, quantity=2)],
        tenders=[card(600_000, "a"), card(600_000, "b")],
    )
    operation = factories.inspected(order)
    approved_by(manager(), operation, amount_minor=600_000)
    small = factories.inspected(order, items=(), goodwill=goodwill("100.00"))
    approved_by(manager(), small)
    agreed = approved_by(second_manager(), operation, amount_minor=600_000)
    assert agreed.state == "approved", "the first split does not fit any more"
    agreed = approved_by(manager(), operation, amount_minor=600_000)
    assert agreed.state == "reserved"
    assert sorted(agreed.payments.values_list("amount_minor", flat=True)) == [10_000, 590_000]


def test_whoever_changes_their_mind_counts_with_the_latest_word() -> None:
    operation = factories.inspected(
        factories.OrderFactory.create(
            lines=[line(price_minor=600_000, quantity=2)], tenders=[card(600_000), cash(600_000)]
        )
    )
    first, other = {"card": 400_000, "cash": 200_000}, {"card": 300_000, "cash": 300_000}
    for split in (first, other, first, other):
        approved_by(manager(), operation, amount_minor=600_000, tenders=split)
    waiting = approved_by(second_manager(), operation, amount_minor=600_000, tenders=first)
    assert waiting.state == "approved", "the first manager has moved on"
    agreed = approved_by(second_manager(), operation, amount_minor=600_000, tenders=other)
    assert agreed.state == "reserved"


def test_a_yes_does_not_count_from_whoever_took_part_afterwards(costly: RefundOperation) -> None:
    approved_by(manager(), costly, amount_minor=600_000)
    open_or_join(request=request_for(costly.order), by=manager())
    waiting = approved_by(second_manager(), costly, amount_minor=600_000)
    assert waiting.state == "approved"


def test_nothing_is_paid_again_while_the_provider_says_that_it_was_paid_after_all() -> None:
    operation = factories.reserved()
    PaymentTask.objects.filter(operation=operation).update(state="sending")
    PaymentTask.objects.filter(operation=operation).update(state="unknown")
    task = PaymentTask.objects.get(operation=operation)
    balance, locked, row = lock_task(task.pk)
    outbound.move(row, timezone.now(), Verdict.DECLINE)
    take_effect(balance, locked, row, "unknown", Verdict.DECLINE, Refused("no", "not today"))
    outbound.raise_attention(row, "paid_after_refusal")
    with refused(WrongState):
        approved_by(manager(), operation, amount_minor=10_000)
