"""At least five hundred stories of the whole service, none of which anybody thought of.

In CI they are the same every time. STATEFUL_EXAMPLES=N draws N new ones per test, from a seed that
is told; with STATEFUL_SEED=S they come again.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from payments import recovery
from tests import factories
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.stateful.machine import AtTheDesk, InTheBooks, OnTheWire
from tests.stateful.story import Story
from tests.stateful.world import World

STORIES = int(os.environ.get("STATEFUL_EXAMPLES", "170"))
# The same stories every time, unless others are asked for.
SEED = os.environ.get("STATEFUL_SEED", "0" if "STATEFUL_EXAMPLES" not in os.environ else "")
STEPS = 10

# After ten examples hypothesis varies those it has had, a step here and there. Fresh stories find
# more, so each run is shorter than that, and there are many.
STORIES_A_RUN = 9

SETTINGS = settings(
    max_examples=STORIES_A_RUN,
    stateful_step_count=STEPS,
    database=None,
    # A story is real processes and a real database.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
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
    start: type[Story],
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

    first = int(SEED or random.SystemRandom().randrange(10**9))
    tell(f"{start.__name__}: STATEFUL_SEED={first}")
    for number in itertools.count(first):
        run_state_machine_as_test(seed(number)(Stories), settings=SETTINGS)
        if told["stories"] >= STORIES:
            break
    world.begin()
    tell(f"{start.__name__}: {told['stories']} stories, {told['steps']} steps")
