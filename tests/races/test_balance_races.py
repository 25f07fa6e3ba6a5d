"""Two people never give the same money back: the lock on the balance, and what happens without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from django.db import IntegrityError

from payments import approval
from returns.errors import InsufficientBalance, OrderChanged
from returns.models import Order, RefundOperation
from returns.order_facts import OrderFacts, PastRefund
from returns.ordering import confirm_order
from tests import factories
from tests.factories import approved_by, card, cash, goodwill, manager, second_manager
from tests.oracle import refused
from tests.races.staging import Pause, meet_after, turn_locks_off
from tests.sandboxes import SandboxProvider
from tests.workers import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def order() -> Order:
    """100.00 on one card."""
    return factories.OrderFactory.create()


def goodwill_of(order: Order, amount: str) -> RefundOperation:
    return factories.inspected(order, items=(), goodwill=goodwill(amount))


def two_of_sixty(order: Order) -> list[Callable[[], RefundOperation]]:
    """Two people, each about to approve 60.00 of the 100.00."""
    wanted = [goodwill_of(order, "60.00") for _ in range(2)]
    people = [manager(), second_manager()]
    return [partial(approved_by, *both) for both in zip(people, wanted, strict=True)]


def reserved_of(order: Order) -> int:
    order.balance.refresh_from_db()
    return order.balance.reserved_minor


def test_without_the_lock_both_see_enough_and_only_the_database_stops_the_second(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The danger: 120.00 of 100.00 would have been promised, on figures that were right once."""
    calls = two_of_sixty(order)
    turn_locks_off(monkeypatch)
    meet_after(monkeypatch, approval, "_refuse_wrong_amount")
    results = at_once(calls)
    stopped = [result for result in results if isinstance(result, Exception)]
    assert len(stopped) == 1
    assert isinstance(stopped[0], IntegrityError)
    assert "never_above_captured" in str(stopped[0])
    assert reserved_of(order) == 6_000


def test_with_the_lock_the_second_waits_and_is_refused_with_the_remainder(
    order: Order,
    monkeypatch: pytest.MonkeyPatch,
    provider: SandboxProvider,
    run_workers: Callable[..., None],
) -> None:
    first, second = two_of_sixty(order)
    third, fourth = goodwill_of(order, "40.01"), goodwill_of(order, "40.00")
    between = Pause(monkeypatch, approval, "_refuse_wrong_amount")
    winner, loser = between.first_then_second(first, second)
    assert isinstance(winner, RefundOperation)
    assert isinstance(loser, InsufficientBalance)
    assert loser.facts == {"remaining": "40.00", "currency": "USD"}

    provider.fault("drop_after", match="/v1/refunds", times=2)
    provider.know_payments()
    assert factories.pay(winner).state == "reserved"  # in doubt, and still held
    with refused(InsufficientBalance, remaining="40.00"):
        approved_by(manager(), third)
    approved_by(manager(), fourth)
    run_workers()
    assert sorted(out["amount"] for out in provider.ledger()) == [4_000, 6_000]


def test_of_eight_approvals_of_thirty_percent_exactly_three_succeed(order: Order) -> None:
    wanted = [goodwill_of(order, "30.00") for _ in range(8)]
    results = at_once([partial(approved_by, manager(), operation) for operation in wanted])
    refusals = [result for result in results if isinstance(result, InsufficientBalance)]
    assert sum(isinstance(result, RefundOperation) for result in results) == 3
    assert [refusal.facts["remaining"] for refusal in refusals] == ["10.00"] * 5
    assert reserved_of(order) == 9_000


def test_two_people_never_empty_the_same_tender(monkeypatch: pytest.MonkeyPatch) -> None:
    order = factories.OrderFactory.create(tenders=[card(6_000), cash(4_000, "gift")])
    wanted = [goodwill_of(order, "40.00") for _ in range(2)]
    first, second = (
        partial(approved_by, manager(), operation, 4_000, {"gift": 4_000}) for operation in wanted
    )
    between = Pause(monkeypatch, approval, "_split")
    winner, loser = between.first_then_second(first, second)
    assert isinstance(winner, RefundOperation)
    assert isinstance(loser, InsufficientBalance)
    assert loser.facts["remaining"] == "0.00"


def test_without_a_wish_the_second_is_paid_from_the_tender_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = factories.OrderFactory.create(tenders=[card(6_000), cash(4_000, "gift")])
    calls = [partial(approved_by, manager(), goodwill_of(order, "40.00")) for _ in range(2)]
    between = Pause(monkeypatch, approval, "_split")
    results = between.first_then_second(*calls)
    paid_on = [
        {task.tender.tender_id: task.amount_minor for task in result.payments.all()}
        for result in results
        if isinstance(result, RefundOperation)
    ]
    assert paid_on == [{"card": 4_000}, {"card": 2_000, "gift": 2_000}]


def test_money_that_went_back_elsewhere_and_an_approval_at_once_never_exceed_the_payment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = factories.order_facts()
    by = factories.integration()
    order, _ = confirm_order(number=facts.number, facts=facts, by=by)
    known: OrderFacts = replace(facts, past_refunds=(PastRefund("card", "dashboard", 6_000),))
    operation = goodwill_of(order, "60.00")
    between = Pause(monkeypatch, approval, "_refuse_wrong_amount")
    approved, told = between.first_then_second(
        partial(approved_by, manager(), operation),
        partial(confirm_order, number=facts.number, facts=known, by=by),
    )
    assert isinstance(approved, RefundOperation)
    assert isinstance(told, OrderChanged)
    assert told.facts["remaining"] == "40.00"
