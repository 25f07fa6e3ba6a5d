"""What is worth what, from the order as sold. Pure arithmetic in minor units."""

from __future__ import annotations

from returns.money import allocate


def line_total(
    *,
    quantity: int,
    unit_price_minor: int,
    discount_minor: int,
    order_discount_minor: int,
    tax_minor: int,
) -> int:
    """What the customer paid for a whole line, in minor units."""
    return quantity * unit_price_minor - discount_minor - order_discount_minor + tax_minor


def unit_values(total_minor: int, quantity: int) -> list[int]:
    """What each unit of a line is worth back, in minor units; the values add up to the line.

    The value belongs to the unit's number and not to the order of returning, so the same unit is
    worth the same through every channel.
    """
    return allocate(total_minor, [1] * quantity)


def spread_order_discount(discount_minor: int, line_totals: list[int]) -> list[int]:
    """Each line's share of a discount on the whole order, fixed when the order is confirmed."""
    if discount_minor == 0:
        return [0] * len(line_totals)
    return allocate(discount_minor, line_totals)
