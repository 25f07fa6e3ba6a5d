"""Every payment that the real code makes is a trace of the model, whatever goes wrong meanwhile.

In CI the runs are the same every time. TRACE_RUNS=N makes N new ones from a seed that is told;
with TRACE_SEED=S they come again.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from pytest_django import Settings

from returns.states import TaskState
from tests.model import rows
from tests.model.payment import OUTCOMES, WITH_KEYS, World
from tests.model.rows import NEVER, Claim, Protocol
from tests.sandboxes import SandboxProvider
from tests.traces.checker import ASKS_AGAIN, CLAIM, EVENT, RECORD, SET_ASIDE, TIME, Checker, Step
from tests.traces.runs import Run, begin_empty, set_times

RUNS = int(os.environ.get("TRACE_RUNS", "20"))
SEED = os.environ.get("TRACE_SEED", "0" if "TRACE_RUNS" not in os.environ else "")
PAYMENTS, STEPS = 4, 60

# Runs in which this never came about would show little.
MUST_COME_ABOUT = {
    *((CLAIM, "send"), (CLAIM, "ask"), (SET_ASIDE, ""), (TIME, ""), (ASKS_AGAIN, "")),
    *((RECORD, "settled"), (RECORD, "accepted"), (RECORD, "refused")),
    *((RECORD, "unknown"), (RECORD, "deferred"), (RECORD, "absent")),
    *((EVENT, "pending"), (EVENT, "paid"), (EVENT, "failed")),
}

Trace = Sequence[Step]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def quiet() -> Iterator[None]:
    """What goes wrong in a run is logged, which is most of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def provider_in_model_times(
    provider: SandboxProvider, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SandboxProvider]:
    """Left empty: a run ends anywhere, and the oracle is about what has come to rest."""
    set_times(settings, monkeypatch)
    yield provider
    begin_empty(provider)


def test_what_the_code_does_the_model_can_do(
    provider_in_model_times: SandboxProvider, quiet: None, tell: Callable[[str], None]
) -> None:
    first = int(SEED or random.SystemRandom().randrange(10**9))
    checker, traces = Checker(World(WITH_KEYS)), list[Trace]()
    for seed in range(first, first + RUNS):
        recorded = _recorded(provider_in_model_times, seed)
        for trace in recorded:
            failure = checker.follow(trace)
            assert failure is None, f"TRACE_SEED={seed}: {failure}"
        traces += recorded
    came_about = Counter((step.kind, step.what) for trace in traces for step in trace)
    assert set(came_about) >= MUST_COME_ABOUT
    tell(
        f"traces: {len(traces)} of payments, {came_about.total():,} steps, TRACE_SEED={first}; "
        f"{len(checker.visited):,} states of the model"
    )
    _assert_spoilt_ones_are_refused(checker, traces, tell)
    _assert_later_is_no_answer(checker)


def _recorded(provider: SandboxProvider, seed: int) -> list[Trace]:
    run = Run(provider, random.Random(seed), PAYMENTS)  # noqa: S311 - the same every time
    run.take(STEPS)
    return list(run.recorder.traces.values())


def _assert_spoilt_ones_are_refused(
    checker: Checker, traces: Sequence[Trace], tell: Callable[[str], None]
) -> None:
    """One figure of one step is not what it was: no such trace may pass."""
    chance = random.Random(0)  # noqa: S311 - the same every time
    spoilt = [_spoilt(trace, chance) for trace in traces if trace]
    passed = [trace for trace in spoilt if checker.follow(trace) is None]
    assert not passed, "\n".join(map(str, passed[0]))
    tell(f"traces: {len(spoilt)} more with one figure of one step altered, every one refused")


def _spoilt(trace: Trace, chance: random.Random) -> Trace:
    at = chance.randrange(len(trace))
    shows = dict(trace[at].shows)
    name = chance.choice(["state", "in_doubt", "refused_in_doubt", "was_sent", "has_look"])
    others = [state for state in TaskState if state != shows["state"]]
    shows[name] = chance.choice(others) if name == "state" else not shows[name]
    altered = trace[at]._replace(shows=tuple(shows.items()))
    return (*trace[:at], altered, *trace[at + 1 :])


def _assert_later_is_no_answer(checker: Checker) -> None:
    """What the checker takes for granted of a look-up that is told to come again later."""
    protocol = Protocol(WITH_KEYS, WITH_KEYS.declared())
    rows_met = {state.row for state in checker.visited if state.row.lease_left != NEVER}
    asked_about = {row for row in rows_met if row.state != TaskState.SENDING}
    assert asked_about
    for row in asked_about:
        later, unanswered = (
            rows.record(row, Claim("ask", 0), OUTCOMES[answer], protocol)
            for answer in ("deferred", "no answer")
        )
        assert later == unanswered, row
