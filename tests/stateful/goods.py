"""What the orders of the stories consist of, how they were paid, and what messages ask for."""

from __future__ import annotations

from typing import Any

from returns.models import Order
from returns.return_request import Goodwill, Item
from tests import factories

SHIRTS, LAMPS = 3, 1

# Prices in minor units: what one manager may approve, and what takes two or is beyond them.
PRICES = {
    "cheap": {"shirt": 100_00, "lamp": 60_00, "shipping": 5_00},
    "dear": {"shirt": 4_000_00, "lamp": 13_000_00, "shipping": 50_00},
}

TENDERS = {
    "card": ("card",),
    "two cards": ("card", "other-card"),
    "card and cash": ("card", "cash"),
    "cash": ("cash",),
}
BY_HAND = frozenset({"cash"})

ASKS: dict[str, dict[str, Any]] = {
    "a shirt": {"items": (Item("shirt", quantity=1),)},
    "shirt 2": {"items": (Item("shirt", units=(2,)),)},
    "two shirts": {"items": (Item("shirt", quantity=2),)},
    "another shirt": {"items": (Item("shirt", quantity=1),), "additional": True},
    "the lamp": {"items": (Item("lamp", quantity=1),)},
    "shirt 3 and the lamp": {"items": (Item("shirt", units=(3,)), Item("lamp", units=(1,)))},
    "everything": {
        "items": (Item("shirt", quantity=3), Item("lamp", quantity=1)),
        "shipping": True,
    },
    "shipping": {"shipping": True},
    "20 for case A": {"goodwill": Goodwill("A", "20.00")},
    "300 for case A": {"goodwill": Goodwill("a", "300.00")},
    "300 for case B": {"goodwill": Goodwill("B", "300.00")},
}


def worth_of(prices: dict[str, int]) -> dict[str, int]:
    """Every subject that can come back, with its value in minor units."""
    units = [("shirt", unit) for unit in range(1, SHIRTS + 1)]
    units += [("lamp", unit) for unit in range(1, LAMPS + 1)]
    goods = {f"line:{line}/unit:{unit}": prices[line] for line, unit in units}
    return goods | {"shipping": prices["shipping"]}


def shares(total_minor: int, tenders: tuple[str, ...]) -> dict[str, int]:
    """What was paid with each: a good half with the first."""
    if len(tenders) == 1:
        return {tenders[0]: total_minor}
    second = total_minor * 2 // 5
    return {tenders[0]: total_minor - second, tenders[1]: second}


def sold(prices: dict[str, int], paid: dict[str, int]) -> Order:
    """The order, confirmed as the shop's integration does it."""
    order: Order = factories.OrderFactory.create(
        lines=[
            factories.line("shirt", prices["shirt"], SHIRTS),
            factories.line("lamp", prices["lamp"], LAMPS),
        ],
        shipping_minor=prices["shipping"],
        tenders=[
            (factories.cash if name in BY_HAND else factories.card)(minor, name)
            for name, minor in paid.items()
        ],
    )
    return order
