"""At least five hundred stories of the whole service, none of which anybody thought of.

In CI they are the same every time. STATEFUL_EXAMPLES=N draws N new ones per test.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from payments import recovery
from tests import factories
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.stateful.machine import AtTheDesk, InTheBooks, OnTheWire, Service
from tests.stateful.world import World

VARIABLE = "STATEFUL_EXAMPLES"
STORIES = int(os.environ.get(VARIABLE, "170"))
STEPS = 10

SETTINGS = settings(
    max_examples=STORIES,
    stateful_step_count=STEPS,
    derandomize=VARIABLE not in os.environ,
    # A story is real processes and a real database.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.reuse, Phase.generate, Phase.shrink],
    print_blob=True,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # Long enough to make a failing story short.
    pytest.mark.timeout(900),
]

ROLES = {
    "anna": "manager",
    "boris": "manager",
    "desk": "desk",
    "web": "integration",
    "fiona": "finance",
}


@pytest.fixture
def quiet() -> Iterator[None]:
    """A story logs what goes wrong in it, which is everything."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def nobody_swallows_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep goes on behind a row that fails in it. Here that ends the story."""

    def here(step: Callable[[int], int], rows: Iterable[int], threads: int) -> list[int]:
        return [step(row) for row in rows]

    monkeypatch.setattr(recovery, "in_threads", here)


@pytest.mark.parametrize("start", [AtTheDesk, OnTheWire, InTheBooks])
def test_whatever_happens_nothing_is_lost_doubled_or_forgotten(
    start: type[Service],
    provider: SandboxProvider,
    erp: SandboxErp,
    quiet: None,
    nobody_swallows_errors: None,
    tell: Callable[[str], None],
) -> None:
    world, told = World(provider, erp), {"stories": 0, "steps": 0}
    people = {name: factories.person(name, role) for name, role in ROLES.items()}

    class Stories(start):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(world, people, told)

    run_state_machine_as_test(Stories, settings=SETTINGS)
    world.begin()
    tell(f"{start.__name__}: {told['stories']} stories, {told['steps']} steps")
    assert told["stories"] >= STORIES
