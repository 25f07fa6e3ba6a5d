"""Every payment and posting that the real code makes is a trace of the model, whatever goes wrong.

In CI the runs are the same every time. TRACE_RUNS=N makes N new ones per test, from a seed that is
told; with TRACE_SEED=S they come again.
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
from tests.model.payment import OUTCOMES, WITH_KEYS
from tests.model.rows import NEVER, Claim, Protocol
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.traces.checker import (
    ASKS_AGAIN,
    CLAIM,
    EVENT,
    RECORD,
    SET_ASIDE,
    TIME,
    Checker,
    Step,
    payment_checker,
    posting_checker,
)
from tests.traces.payment_runs import PaymentRun, set_payment_times
from tests.traces.posting_runs import PostingRun, set_posting_times
from tests.traces.runs import Run, begin_empty

RUNS = int(os.environ.get("TRACE_RUNS", "0"))
SEED = os.environ.get("TRACE_SEED", "" if RUNS else "0")
RUNS_OF_PAYMENTS, RUNS_OF_POSTINGS = RUNS or 14, RUNS or 6
ROWS, STEPS = 5, 70

# Runs in which this never came about would show little.
OF_BOTH = {
    *((TIME, ""), (ASKS_AGAIN, ""), (CLAIM, "send"), (CLAIM, "ask"), (RECORD, "settled")),
    *((RECORD, "accepted"), (RECORD, "refused"), (RECORD, "unknown"), (RECORD, "absent")),
}
OF_PAYMENTS = OF_BOTH | {
    *((RECORD, "deferred"), (SET_ASIDE, "")),
    *((EVENT, "pending"), (EVENT, "paid"), (EVENT, "failed")),
}

Trace = Sequence[Step]
Tell = Callable[[str], None]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What goes wrong in a run is logged, which is most of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def seed() -> int:
    return int(SEED or random.SystemRandom().randrange(10**9))


@pytest.fixture
def left_empty(provider: SandboxProvider, erp: SandboxErp) -> Iterator[None]:
    """A run ends anywhere, and the oracle is about what has come to rest."""
    yield
    begin_empty(provider)
    erp.reset()


def test_what_the_code_does_with_payments_the_model_can_do(
    provider: SandboxProvider,
    left_empty: None,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    tell: Tell,
) -> None:
    set_payment_times(settings, monkeypatch)
    checker = payment_checker()
    runs = (PaymentRun(provider, chance, ROWS) for chance in _chances(seed, RUNS_OF_PAYMENTS))
    traces = _followed(checker, runs, f"TRACE_SEED={seed}")
    _tell(tell, f"payments, TRACE_SEED={seed}", checker, traces, OF_PAYMENTS)
    _assert_spoilt_ones_are_refused(checker, traces)
    _assert_later_is_no_answer(checker)


def test_what_the_code_does_with_postings_the_model_can_do(
    provider: SandboxProvider,
    erp: SandboxErp,
    left_empty: None,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    tell: Tell,
) -> None:
    set_posting_times(settings, monkeypatch)
    for unique in (True, False):
        checker = posting_checker(unique=unique)
        runs = (
            PostingRun(provider, erp, chance, ROWS, unique=unique)
            for chance in _chances(seed, RUNS_OF_POSTINGS)
        )
        traces = _followed(checker, runs, f"TRACE_SEED={seed}, unique={unique}")
        kind = "unique references" if unique else "any number of entries"
        _tell(tell, f"postings with {kind}, TRACE_SEED={seed}", checker, traces, OF_BOTH)
        _assert_spoilt_ones_are_refused(checker, traces)


def _chances(first: int, runs: int) -> Iterator[random.Random]:
    for seed in range(first, first + runs):
        yield random.Random(seed)  # noqa: S311 - the same every time


def _followed(checker: Checker, runs: Iterator[Run], where: str) -> list[Trace]:
    """What each run records; fails at the first step that the model cannot take."""
    traces: list[Trace] = []
    for number, run in enumerate(runs):
        run.take(STEPS)
        for trace in run.recorder.traces.values():
            failure = checker.follow(trace)
            assert failure is None, f"{where}, run {number}: {failure}"
            traces.append(trace)
    return traces


def _tell(
    tell: Tell, what: str, checker: Checker, traces: list[Trace], must: set[tuple[str, str]]
) -> None:
    came_about = Counter((step.kind, step.what) for trace in traces for step in trace)
    tell(
        f"traces of {what}: {len(traces)} with {came_about.total():,} steps, "
        f"{len(checker.visited):,} states of the model; as many spoilt ones, all refused"
    )
    assert not must - set(came_about)


def _assert_spoilt_ones_are_refused(checker: Checker, traces: list[Trace]) -> None:
    """One figure of one step is not what it was: no such trace may pass."""
    chance = random.Random(0)  # noqa: S311 - the same every time
    spoilt = [_spoilt(trace, chance) for trace in traces if trace]
    passed = [trace for trace in spoilt if checker.follow(trace) is None]
    assert not passed, "\n".join(map(str, passed[0]))


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
    leased = {state.row for state in checker.visited if state.row.lease_left != NEVER}
    asked_about = {row for row in leased if row.state != TaskState.SENDING}
    assert asked_about
    for row in asked_about:
        later, unanswered = (
            rows.record(row, Claim("ask", 0), OUTCOMES[answer], protocol)
            for answer in ("deferred", "no answer")
        )
        assert later == unanswered, row
