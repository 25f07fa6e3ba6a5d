"""How much one manager may approve, and from where on it takes two."""

from __future__ import annotations

import pytest

from payments.limits import Limits, limits_of

TABLE = {"EUR": ("5000", "20000"), "JPY": ("750000", "3000000"), "other": ("1000", "4000")}


@pytest.mark.parametrize(("amount_minor", "needed"), [(1, 1), (500_000, 1), (500_001, 2)])
def test_above_the_single_limit_it_takes_two(amount_minor: int, needed: int) -> None:
    assert limits_of("EUR", TABLE).approvals_needed(amount_minor) == needed


@pytest.mark.parametrize(
    ("currency", "limits"),
    [
        ("EUR", Limits(500_000, 2_000_000)),
        ("JPY", Limits(750_000, 3_000_000)),
        ("KWD", Limits(1_000_000, 4_000_000)),
        ("SEK", Limits(100_000, 400_000)),
    ],
)
def test_limits_are_major_units_of_the_refunds_own_currency(currency: str, limits: Limits) -> None:
    assert limits_of(currency, TABLE) == limits
