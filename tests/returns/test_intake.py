"""The same goods are the same return, whoever brings them how, and however often they ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from returns import identity
from returns.closing import reject, withdraw
from returns.errors import (
    InsufficientBalance,
    Invalid,
    MessageChanged,
    Missing,
    NotAllowed,
    NothingRefundable,
    UnitsClaimed,
)
from returns.inspection import UnitFound
from returns.intake import Taken, open_or_join
from returns.models import IntakeMessage, Order, RefundOperation
from returns.order_facts import PastRefund
from returns.return_request import Goodwill, Item, ReturnRequest
from tests import factories
from tests.factories import cash, line, request_for
from tests.oracle import nothing_changes, refused

pytestmark = pytest.mark.django_db


def take_in(request: ReturnRequest) -> Taken:
    return open_or_join(request=request, by=factories.desk())


@pytest.fixture
def order() -> Order:
    """Three shirts at 20.00, one hat at 35.00, shipping 5.00: 100.00 in all."""
    return factories.OrderFactory.create(
        lines=[line("shirt", 2_000, 3), line("hat", 3_500)], shipping_minor=500
    )


def shirts(*units: int, **other: Any) -> dict[str, Any]:
    return {"items": (Item("shirt", units=units),), **other}


def subjects(operation: RefundOperation) -> list[str]:
    live = operation.claims.filter(live=True)
    return sorted(live.values_list("subject", flat=True))


# Opening.


def test_a_first_message_opens_a_return_and_is_kept_verbatim(order: Order) -> None:
    text = "  Please take <b>this</b> back!\n\N{ZERO WIDTH SPACE} "
    request = request_for(order, customer_text=text, reason="too small", channel="email")
    taken = take_in(request)
    operation = taken.operation
    assert (taken.created, operation.state, operation.generation) == (True, "received", 0)
    assert (operation.taken_in_by, operation.taken_in_channel) == (factories.desk(), "email")
    assert (operation.amount_minor, operation.refunded_minor) == (None, 0)
    message = operation.messages.get()
    assert (message.customer_text, message.reason, message.joined) == (text, "too small", False)
    assert [event.verb for event in operation.events.all()] == ["take_in"]


def test_taking_in_moves_no_money(order: Order) -> None:
    factories.received(order)
    order.balance.refresh_from_db()
    assert (order.balance.reserved_minor, order.balance.remaining_minor) == (0, 10_000)


def test_the_key_comes_from_the_goods_and_not_from_the_message(order: Order) -> None:
    operation = factories.received(order, channel="phone")
    expected = identity.operation_key(order.number, "line:shirt/unit:1", 0)
    assert operation.operation_key == expected
    assert expected == identity.operation_key(order.number.lower(), "line:shirt/unit:1", 0)
    others = {
        identity.operation_key(order.number, "line:shirt/unit:2", 0),
        identity.operation_key(order.number, "line:shirt/unit:1", 1),
        identity.operation_key("W1", "line:shirt/unit:1", 0),
    }
    assert len({expected, *others}) == 4


def test_a_quantity_means_the_first_units(order: Order) -> None:
    operation = factories.received(order, items=(Item("shirt", quantity=2),))
    assert subjects(operation) == ["line:shirt/unit:1", "line:shirt/unit:2"]
    assert [claim.amount_minor for claim in operation.claims.all()] == [2_000, 2_000]


def test_everything_at_once_is_one_return(order: Order) -> None:
    everything = (Item("hat", quantity=1), Item("shirt", quantity=3))
    operation = factories.received(order, items=everything, shipping=True)
    assert len(subjects(operation)) == 5
    assert sum(claim.amount_minor for claim in operation.claims.all()) == 10_000


@pytest.mark.parametrize("number", ["lower", "upper"])
def test_the_order_number_may_be_typed_in_any_case(number: str) -> None:
    order = factories.OrderFactory.create(number="Wa-77")
    typed = getattr(order.number, number)()
    assert take_in(replace(request_for(order), order=typed)).operation.order == order


# Joining.


@pytest.mark.parametrize("channel", ["counter", "online", "email", "phone", "agent"])
def test_the_same_goods_through_another_channel_join(order: Order, channel: str) -> None:
    first = factories.received(order)
    agent = factories.person("agent", "desk")
    taken = open_or_join(request=request_for(order, channel=channel), by=agent)
    assert (taken.operation, taken.joined, taken.created) == (first, True, False)
    assert RefundOperation.objects.count() == 1
    assert list(first.messages.values_list("submitted_by__username", flat=True)) == [
        "desk",
        "agent",
    ]
    assert [event.verb for event in first.events.order_by("id")] == ["take_in", "join"]


def test_a_quantity_and_its_unit_numbers_are_the_same_goods(order: Order) -> None:
    first = factories.received(order, items=(Item("shirt", quantity=2),))
    assert take_in(request_for(order, **shirts(2, 1))).operation == first


def test_goods_join_at_every_stage_until_the_end(order: Order) -> None:
    reserved = factories.reserved(order)
    taken = take_in(request_for(order))
    assert (taken.operation, taken.joined) == (reserved, True)


def test_what_was_left_after_inspection_joins_as_well(order: Order) -> None:
    found = factories.inspected(
        order, items=(Item("shirt", quantity=2),), rejected=[UnitFound("shirt", 2)]
    )
    assert take_in(request_for(order, **shirts(1))).operation == found
    assert take_in(request_for(order, **shirts(1, 2))).operation == found
    assert take_in(request_for(order, **shirts(2))).created


def test_the_same_case_with_the_same_amount_joins(order: Order) -> None:
    first = factories.received(order, goodwill=Goodwill("case-7", "10.00"))
    again = take_in(request_for(order, goodwill=Goodwill("case-7", "10.00")))
    assert (again.operation, again.joined) == (first, True)


def test_a_case_is_the_same_in_any_case_of_letters(order: Order) -> None:
    first = factories.received(order, goodwill=Goodwill("C-9", "10.00"))
    again = take_in(request_for(order, goodwill=Goodwill("c-9", "10.00")))
    assert (again.operation, again.joined) == (first, True)


# The same message.


def test_a_message_that_names_its_order_in_another_case_is_the_same_message() -> None:
    request = request_for(factories.OrderFactory.create(number="Wa-78"))
    first = take_in(request)
    again = take_in(replace(request, order="wA-78"))
    assert (again.operation, again.replayed) == (first.operation, True)


def test_a_message_delivered_again_gets_the_first_answer(order: Order) -> None:
    request = request_for(order)
    first = take_in(request)
    with nothing_changes():
        again = take_in(request)
    assert (again.operation, again.message, again.replayed) == (
        first.operation,
        first.message,
        True,
    )
    assert (again.created, again.joined) == (False, False)


def test_a_message_that_had_joined_gets_the_same_answer_even_after_the_end(order: Order) -> None:
    operation = factories.received(order)
    request = request_for(order, channel="online")
    take_in(request)
    withdraw(operation_key=operation.operation_key, by=factories.desk())
    with nothing_changes():
        again = take_in(request)
    assert (again.operation, again.joined, again.replayed) == (operation, True, True)


@pytest.mark.parametrize(
    "changed", [{"reason": "another"}, {"customer_text": "more"}, shirts(2), {"additional": True}]
)
def test_a_used_message_id_with_other_content_is_refused(
    order: Order, changed: dict[str, Any]
) -> None:
    request = request_for(order)
    operation = take_in(request).operation
    with refused(MessageChanged, code="message_changed", reference=operation.reference):
        take_in(replace(request, **changed))


def test_the_same_id_in_another_channel_is_another_message(order: Order) -> None:
    request = request_for(order, channel="email")
    take_in(request)
    assert take_in(replace(request, channel="online")).joined
    assert IntakeMessage.objects.count() == 2


# Another one.


def test_another_unit_must_be_said_and_then_is_the_next_free_one(order: Order) -> None:
    first = factories.received(order)
    second = factories.received(order, additional=True)
    third = factories.received(order, additional=True)
    assert [subjects(one) for one in (first, second, third)] == [
        ["line:shirt/unit:1"],
        ["line:shirt/unit:2"],
        ["line:shirt/unit:3"],
    ]
    assert len({one.operation_key for one in (first, second, third)}) == 3


def test_no_more_units_than_were_sold(order: Order) -> None:
    operation = factories.received(order, items=(Item("shirt", quantity=2),))
    with refused(UnitsClaimed, free_units={"shirt": [3]}) as refusal:
        take_in(request_for(order, items=(Item("shirt", quantity=2),), additional=True))
    named = {conflict["reference"] for conflict in refusal.value.facts["conflicts"]}
    assert named == {operation.reference}


# Conflicts.


def test_an_overlap_is_a_conflict_that_names_the_other_return(order: Order) -> None:
    operation = factories.received(order)
    with refused(UnitsClaimed, code="units_claimed") as refusal:
        take_in(request_for(order, **shirts(1, 2)))
    assert refusal.value.facts["conflicts"] == [
        {
            "line": "shirt",
            "unit": 1,
            "subject": "line:shirt/unit:1",
            "operation": str(operation.operation_key),
            "reference": operation.reference,
        }
    ]
    assert refusal.value.facts["free_units"] == {"shirt": [2, 3], "hat": [1]}


def test_a_part_of_a_return_is_not_the_same_return(order: Order) -> None:
    factories.received(order, **shirts(1, 2))
    with refused(UnitsClaimed):
        take_in(request_for(order, **shirts(1)))


def test_two_returns_are_never_merged(order: Order) -> None:
    one, two = factories.received(order, **shirts(1)), factories.received(order, **shirts(2))
    with refused(UnitsClaimed) as refusal:
        take_in(request_for(order, **shirts(1, 2)))
    named = [conflict["reference"] for conflict in refusal.value.facts["conflicts"]]
    assert named == [one.reference, two.reference]


def test_the_same_case_with_another_amount_is_a_conflict(order: Order) -> None:
    factories.received(order, goodwill=Goodwill("case-7", "10.00"))
    with refused(UnitsClaimed):
        take_in(request_for(order, goodwill=Goodwill("case-7", "10.01")))


# After the end.


def test_goods_of_a_rejected_return_come_back_under_a_new_key(order: Order) -> None:
    keys = []
    for generation in range(3):
        operation = factories.received(order)
        keys.append(operation.operation_key)
        assert operation.generation == generation
        reject(operation_key=operation.operation_key, by=factories.manager(), reason="worn")
    assert len(set(keys)) == 3


def test_goods_of_a_withdrawn_return_are_free_for_another_set(order: Order) -> None:
    operation = factories.received(order, **shirts(1, 2))
    withdraw(operation_key=operation.operation_key, by=factories.desk())
    assert take_in(request_for(order, **shirts(2, 3))).created


def test_a_rejected_unit_may_come_back_while_the_rest_is_paid(order: Order) -> None:
    factories.inspected(order, **shirts(1, 2), rejected=[UnitFound("shirt", 2)])
    assert subjects(factories.received(order, **shirts(2))) == ["line:shirt/unit:2"]


# Shipping and goodwill.


def test_shipping_goes_back_once(order: Order) -> None:
    first = factories.received(order, shipping=True, items=())
    assert subjects(first) == ["shipping"]
    assert take_in(request_for(order, shipping=True, items=())).joined
    with refused(UnitsClaimed):
        take_in(request_for(order, shipping=True, **shirts(1)))


def test_shipping_that_was_free_cannot_go_back() -> None:
    order = factories.OrderFactory.create()
    with refused(Invalid):
        take_in(request_for(order, shipping=True))


@pytest.mark.parametrize(
    ("currency", "amount"),
    [
        *(("USD", "0"), ("USD", "0.00"), ("USD", "-10"), ("USD", ""), ("USD", "1e2")),
        *(("USD", "NaN"), ("USD", "0.001"), ("USD", "10,00"), ("JPY", "10.5"), ("KWD", "0.0001")),
    ],
)
def test_a_goodwill_that_is_no_amount_is_refused(currency: str, amount: str) -> None:
    order = factories.OrderFactory.create(currency=currency)
    with refused(Invalid) as refusal:
        take_in(request_for(order, goodwill=Goodwill("case-7", amount)))
    assert list(refusal.value.fields) == ["goodwill"]


def test_no_more_goodwill_than_is_left(order: Order) -> None:
    with refused(InsufficientBalance, remaining="100.00", currency="USD"):
        take_in(request_for(order, goodwill=Goodwill("case-7", "100.01")))
    assert take_in(request_for(order, goodwill=Goodwill("case-7", "100.00"))).created


# Nothing to give back.


def test_an_unknown_order_is_said_to_be_unknown(order: Order) -> None:
    with refused(Missing, code="unknown_order", order="W0"):
        take_in(replace(request_for(order), order="W0"))


def test_goods_that_were_never_delivered_cannot_come_back() -> None:
    order = factories.OrderFactory.create(delivered=False)
    with refused(NothingRefundable, reason="not_delivered"):
        take_in(request_for(order))


def test_an_order_that_is_refunded_has_nothing_left() -> None:
    order = factories.OrderFactory.create(
        tenders=[cash(10_000)], past_refunds=[PastRefund("cash", "earlier", 10_000)]
    )
    with refused(NothingRefundable, code="nothing_refundable", reason="already_refunded"):
        take_in(request_for(order))


# What makes no sense.


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"channel": "pigeon"}, "channel"),
        ({"message_id": ""}, "message_id"),
        ({"message_id": "x" * 201}, "message_id"),
        ({"message_id": " \t "}, "message_id"),
        ({"items": ()}, "items"),
        ({"items": (Item("sock", 1),)}, "items"),
        ({"items": (Item("shirt", 1), Item("shirt", 1))}, "items"),
        ({"items": (Item("shirt", 0),)}, "items"),
        ({"items": (Item("shirt", -1),)}, "items"),
        ({"items": (Item("shirt", 4),)}, "items"),
        ({"items": (Item("shirt"),)}, "items"),
        ({"items": (Item("shirt", 1, (1,)),)}, "items"),
        (shirts(0), "items"),
        (shirts(4), "items"),
        (shirts(1, 1), "items"),
        ({"goodwill": Goodwill("a case", "1.00")}, "goodwill"),
        ({"goodwill": Goodwill("", "1.00")}, "goodwill"),
        ({"goodwill": Goodwill("a/case", "1.00")}, "goodwill"),
        ({"goodwill": Goodwill("Maßband", "1.00")}, "goodwill"),
    ],
)
def test_nonsense_is_refused_by_field(order: Order, changed: dict[str, Any], field: str) -> None:
    with refused(Invalid) as refusal:
        take_in(replace(request_for(order), **changed))
    assert list(refusal.value.fields) == [field]


@pytest.mark.parametrize("role", ["finance", "admin"])
def test_finance_takes_nothing_in(order: Order, role: str) -> None:
    with refused(NotAllowed, code="role"):
        open_or_join(request=request_for(order), by=factories.person("somebody", role))


def test_nobody_takes_in_with_an_account_that_was_closed(order: Order) -> None:
    gone = factories.person("gone", "desk")
    gone.is_active = False
    gone.save()
    with refused(NotAllowed, code="role"):
        open_or_join(request=request_for(order), by=gone)
