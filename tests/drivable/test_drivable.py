"""The system under test keeps the promise in every scenario; the naive one breaks it in each."""

from __future__ import annotations

import pytest

from tests.drivable.driver import RefundSystem
from tests.drivable.naive import NaiveRefunds
from tests.drivable.scenarios import SCENARIOS, Broken

HOW_THE_NAIVE_ONE_FAILS = {
    "duplicate_messages": "paid 3 times",
    "simultaneous_requests": "paid 2 times",
    "partial_refunds": "24000 of 10000 left",
    "dropped_connection": "paid 2 times",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_system_pays_once(name: str, system: RefundSystem) -> None:
    SCENARIOS[name](system)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_naive_system_fails(name: str) -> None:
    with NaiveRefunds() as system, pytest.raises(Broken, match=HOW_THE_NAIVE_ONE_FAILS[name]):
        SCENARIOS[name](system)
