"""What a unit is worth back comes from the order as sold, to the cent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returns.models import Order
from returns.refundable import line_total, spread_order_discount, unit_values
from returns.return_request import Item
from tests import factories
from tests.factories import line, worth_minor


def returned_in_turn(order: Order, *items: Item) -> list[int]:
    """What each of these returns is worth, one after the other; each is paid before the next."""
    worth = []
    for item in items:
        operation = factories.inspected(order, items=(item,))
        worth.append(worth_minor(operation))
        factories.pay(factories.approved_by(factories.manager(), operation))
    return worth


def cash_order(discount_minor: int, *lines: tuple[str, int, int]) -> Order:
    """Lines of (id, price, quantity) with one discount on the whole order."""
    sold = [line(name, price, quantity) for name, price, quantity in lines]
    paid_minor = sum(one.total_minor for one in sold) - discount_minor
    return factories.OrderFactory.create(
        lines=sold, discount_minor=discount_minor, tenders=[factories.cash(paid_minor)]
    )


@pytest.mark.django_db
def test_a_discount_on_the_order_is_shared_by_its_lines() -> None:
    order = cash_order(100, ("tea", 600, 1), ("cup", 400, 1))
    assert returned_in_turn(order, Item("tea", 1), Item("cup", 1)) == [540, 360]
    order.balance.refresh_from_db()
    assert (order.balance.refunded_minor, order.balance.remaining_minor) == (900, 0)


@pytest.mark.django_db
def test_what_is_left_keeps_its_price_when_a_part_has_gone_back() -> None:
    order = cash_order(1_000, ("coat", 6_000, 1), ("hat", 4_000, 1))
    assert returned_in_turn(order, Item("coat", 1)) == [5_400]
    assert order.lines.get(line_id="hat").unit_values_minor == [3_600]
    assert order.lines.get(line_id="hat").total_minor == 3_600


@pytest.mark.django_db
@pytest.mark.parametrize("sequence", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_equal_units_lose_no_cent_in_any_order(sequence: tuple[int, ...]) -> None:
    order = cash_order(100, ("mug", 1_000, 3))
    worth = returned_in_turn(order, *(Item("mug", units=(unit,)) for unit in sequence))
    assert sorted(worth) == [966, 967, 967]
    assert worth[sequence.index(2)] == 966  # the value belongs to the unit, not to the turn
    order.balance.refresh_from_db()
    assert order.balance.remaining_minor == 0


def test_discount_and_tax_belong_to_the_line() -> None:
    total_minor = line_total(
        quantity=3,
        unit_price_minor=1_999,
        discount_minor=500,
        order_discount_minor=100,
        tax_minor=432,
    )
    assert total_minor == 5_829
    assert unit_values(total_minor, 3) == [1_943, 1_943, 1_943]


@pytest.mark.parametrize(
    ("total_minor", "values"),
    [(1_000, [333, 334, 333]), (10_000, [3_333, 3_334, 3_333]), (2, [1, 0, 1]), (0, [0, 0, 0])],
)
def test_units_of_any_currency_add_up_to_their_line(total_minor: int, values: list[int]) -> None:
    assert unit_values(total_minor, 3) == values


def test_no_discount_needs_no_lines_of_worth() -> None:
    assert spread_order_discount(0, [0, 0]) == [0, 0]


@given(
    totals=st.lists(st.integers(min_value=0, max_value=10**9), min_size=1, max_size=20).filter(any),
    share=st.integers(min_value=0, max_value=100),
)
def test_no_line_is_discounted_below_nothing(totals: list[int], share: int) -> None:
    discount_minor = sum(totals) * share // 100
    parts = spread_order_discount(discount_minor, totals)
    assert sum(parts) == discount_minor
    assert all(0 <= part <= total for part, total in zip(parts, totals, strict=True))
