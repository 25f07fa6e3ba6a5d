"""The same goods, asked for twice at the same moment, are one return; different goods never wait
for each other in a circle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import pytest
from django.contrib.auth.models import User

from returns import intake, ordering
from returns.errors import OrderChanged, UnitsClaimed
from returns.intake import Taken, open_or_join
from returns.models import Claim, IntakeMessage, Order, RefundOperation
from returns.order_facts import OrderFacts
from returns.ordering import Confirmed, confirm_order
from returns.return_request import Item, ReturnRequest
from tests import factories
from tests.factories import desk, line, request_for
from tests.races.staging import Pause, meet_after
from tests.workers import at_once

pytestmark = pytest.mark.django_db(transaction=True)

CHANNELS = ("counter", "online", "email", "phone", "agent")


@pytest.fixture
def order() -> Order:
    """Four shirts, two hats, one sock."""
    sold = [line("shirt", 1_000, 4), line("hat", 1_000, 2), line("sock", 1_000)]
    return factories.OrderFactory.create(lines=sold)


def take_in(request: ReturnRequest, by: User) -> Callable[[], Taken]:
    return partial(open_or_join, request=request, by=by)


def claimed_units() -> list[int | None]:
    return list(Claim.objects.order_by("unit").values_list("unit", flat=True))


# The same goods.


def test_two_first_requests_both_find_the_goods_free_and_one_joins_the_other(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The danger is real: when both looked, nobody had claimed anything."""
    by = desk()
    calls = [take_in(request_for(order, channel=channel), by) for channel in CHANNELS[:2]]
    meet_after(monkeypatch, intake, "_same_goods")
    one, other = at_once(calls)
    assert isinstance(one, Taken)
    assert isinstance(other, Taken)
    assert one.operation == other.operation
    assert sorted([one.joined, other.joined]) == [False, True]
    assert RefundOperation.objects.count() == Claim.objects.count() == 1
    assert IntakeMessage.objects.count() == 2


def test_a_second_request_waits_for_the_first_to_be_stored_and_joins(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = desk()
    before_the_commit = Pause(monkeypatch, intake, "_refuse_changed_facts")
    first, second = before_the_commit.first_then_second(
        take_in(request_for(order), by), take_in(request_for(order, channel="online"), by)
    )
    assert isinstance(first, Taken)
    assert isinstance(second, Taken)
    assert (first.created, second.joined) == (True, True)
    assert first.operation == second.operation


def test_of_ten_requests_in_every_channel_nine_join(order: Order) -> None:
    by = desk()
    results = at_once([take_in(request_for(order, channel=c), by) for c in CHANNELS * 2])
    taken = [result for result in results if isinstance(result, Taken)]
    assert len({answer.operation.operation_key for answer in taken}) == 1
    assert [answer.joined for answer in taken].count(True) == 9


# The same message.


def test_a_message_delivered_twice_at_once_is_stored_once(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, by = request_for(order), desk()
    meet_after(monkeypatch, intake, "_replay")
    one, other = at_once([take_in(request, by)] * 2)
    assert isinstance(one, Taken)
    assert isinstance(other, Taken)
    assert one.message == other.message
    assert sorted([one.created, other.created]) == [False, True]
    assert IntakeMessage.objects.count() == 1


# Another one.


def test_additional_units_asked_for_at_once_are_different_ones(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = desk()
    calls = [take_in(request_for(order, additional=True), by) for _ in range(4)]
    meet_after(monkeypatch, intake, "_same_goods", people=4)
    taken = [result for result in at_once(calls) if isinstance(result, Taken)]
    assert len({answer.operation.pk for answer in taken}) == 4
    assert claimed_units() == [1, 2, 3, 4]


def test_no_unit_is_given_away_twice_when_too_many_ask(order: Order) -> None:
    by = desk()
    results = at_once([take_in(request_for(order, additional=True), by) for _ in range(6)])
    assert sum(isinstance(result, UnitsClaimed) for result in results) == 2
    assert claimed_units() == [1, 2, 3, 4]


# Overlaps.


def test_overlapping_sets_in_opposite_order_never_wait_in_a_circle(order: Order) -> None:
    by = desk()
    forth = (Item("hat", 2), Item("shirt", 1), Item("sock", 1))
    back = (Item("sock", 1), Item("shirt", units=(2, 1)))
    calls = [
        take_in(request_for(order, items=items, channel=channel), by)
        for channel in CHANNELS
        for items in (forth, back)
    ]
    results = at_once(calls)
    assert {type(result) for result in results} == {Taken, UnitsClaimed}
    taken = [result for result in results if isinstance(result, Taken)]
    assert len({answer.operation.pk for answer in taken}) == 1
    assert len(taken) == 5


def test_overlapping_goods_are_claimed_in_one_order_however_they_are_named(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row, so that the second comes while the first holds one claim and lacks the other."""
    by = desk()
    forth = (Item("hat", 1), Item("sock", 1))
    back = (Item("sock", 1), Item("hat", 1), Item("shirt", 1))
    monkeypatch.setattr(Claim.objects, "bulk_create", claim_all)
    after_one_claim = Pause(monkeypatch, sys.modules[__name__], "claim_one")
    first, second = after_one_claim.first_then_second(
        take_in(request_for(order, items=forth), by), take_in(request_for(order, items=back), by)
    )
    assert isinstance(first, Taken)
    assert isinstance(second, UnitsClaimed)


def claim_all(claims: Iterable[Claim]) -> None:
    for claim in claims:
        claim_one(claim)


def claim_one(claim: Claim) -> None:
    claim.save(force_insert=True)


# The order underneath.


@pytest.fixture
def facts() -> OrderFacts:
    return factories.order_facts()


def confirm(facts: OrderFacts) -> Callable[[], tuple[Order, Confirmed]]:
    return partial(confirm_order, number=facts.number, facts=facts, by=factories.integration())


def cheaper(facts: OrderFacts) -> OrderFacts:
    """The same order, sold for 90.00."""
    lines = (replace(facts.lines[0], unit_price_minor=9_000),)
    return replace(facts, lines=lines, tenders=(replace(facts.tenders[0], amount_minor=9_000),))


def test_an_order_confirmed_twice_at_once_is_created_once(
    facts: OrderFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_the_commit = Pause(monkeypatch, ordering, "_write_rows")
    first, second = before_the_commit.first_then_second(confirm(facts), confirm(facts))
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert (first[1], second[1]) == (Confirmed.CREATED, Confirmed.UNCHANGED)
    assert first[0] == second[0]


def test_a_price_never_changes_while_a_return_on_it_is_being_stored(
    facts: OrderFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, _ = confirm(facts)()
    before_the_commit = Pause(monkeypatch, intake, "_refuse_changed_facts")
    taken, changed = before_the_commit.first_then_second(
        take_in(request_for(order), desk()), confirm(cheaper(facts))
    )
    assert isinstance(taken, Taken)
    assert isinstance(changed, OrderChanged)
    assert Claim.objects.get().amount_minor == order.lines.get().total_minor == 10_000


def test_a_return_on_a_price_that_changes_at_this_moment_counts_the_new_price(
    facts: OrderFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, _ = confirm(facts)()
    before_the_commit = Pause(monkeypatch, ordering, "_set_balances")
    changed, taken = before_the_commit.first_then_second(
        confirm(cheaper(facts)), take_in(request_for(order), desk())
    )
    assert isinstance(changed, tuple)
    assert isinstance(taken, Taken)
    assert Claim.objects.get().amount_minor == order.lines.get().total_minor == 9_000
