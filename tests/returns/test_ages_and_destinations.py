"""How long something waits in words, when that is late, and which tender pays what. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from returns import ages
from returns.destinations import first_fit

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (86_400, "1 d"),
        (97_200, "1 d 3 h"),
    ],
)
def test_an_age_has_one_or_two_units(seconds: int, words: str) -> None:
    assert ages.in_words(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("state", "hours", "late"),
    [
        ("received", 23, False),
        ("received", 25, True),
        ("reserved", 2, True),
        ("posted", 9_999, False),
        ("rejected", 9_999, False),
    ],
)
def test_a_state_is_late_past_its_target(state: str, hours: int, late: bool) -> None:
    assert ages.is_late(state, NOW - timedelta(hours=hours), NOW) is late


def test_tenders_are_drawn_on_in_order() -> None:
    assert first_fit(5_000, [2_000, 10_000]) == [2_000, 3_000]
    assert first_fit(1_000, [0, 400, 700]) == [0, 400, 600]
