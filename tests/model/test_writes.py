"""The model writes what the product writes: both are given the same row and must agree.

The product's `payments.outbound` runs on a table in memory, for every row that the searches reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from datetime import datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pytest_django import Settings

from payments import outbound
from payments.models import AttemptRow, OutboundRow
from payments.outcomes import Outcome, Purpose, Refused
from payments.protocol import DEATHS_BEFORE_PARKING, Decision, Step, Verdict
from returns.states import TaskState
from tests.model import books, payment, rows
from tests.model.payment import OUTCOMES
from tests.model.rows import NEVER, NOW, TICK, TICK_SECONDS, Claim, Protocol, Row, Times
from tests.model.search import search

LEASE = 7


class _Table:
    """A table of one row, as far as the product's queries go."""

    row: Any = None

    def annotate(self, **now: Any) -> _Table:
        return self

    def get(self, pk: int) -> Any:
        self.row.now = NOW
        return self.row

    def filter(self, **wanted: Any) -> _Table:
        assert all(getattr(self.row, name) == value for name, value in wanted.items())
        return self

    def update(self, **fields: Any) -> int:
        vars(self.row).update(fields)
        return 1

    def create(self, **fields: Any) -> None:
        """Attempts are written down for people; the model has none."""


class _MemoryRow(SimpleNamespace):
    _default_manager = _Table()


ROWS, ATTEMPTS = cast("type[OutboundRow]", _MemoryRow), cast("type[AttemptRow]", _MemoryRow)


def _product_row(row: Row, times: Times) -> OutboundRow:
    facts = rows.facts(row, times)
    memory = _MemoryRow(
        **vars(facts),
        pk=1,
        lease=LEASE,
        # The key's time has begun with a first send, unless that was certainly not applied.
        first_sent_at=None if row.safe_left is None else NOW,
        last_answer="",
        attention="set aside" if row.has_word else "",
    )
    _MemoryRow._default_manager.row = memory
    return cast("OutboundRow", memory)


def _model_row(row: OutboundRow, times: Times) -> Row:
    def ticks(until: datetime | None, since: datetime | None = NOW) -> int:
        return NEVER if until is None or since is None else (until - since) // TICK

    sent_age = NEVER if row.last_sent_at is None else ticks(NOW, row.last_sent_at)
    absent_after = NEVER
    if row.absent_at is not None:
        absent_after = times.told_apart(max(ticks(row.absent_at, row.last_sent_at), 0))
    return Row(
        state=row.state,
        lease_left=ticks(row.lease_until),
        has_look=row.next_look_at is not None,
        sent_age=sent_age,
        safe_left=None if row.safe_retry_until is None else ticks(row.safe_retry_until),
        absent_after=absent_after,
        in_doubt=row.in_doubt,
        refused_in_doubt=row.refused_in_doubt,
        deaths=min(row.deaths, DEATHS_BEFORE_PARKING - 1),
        has_word=row.state == TaskState.STUCK and bool(row.attention),
    )


COUNTERPARTS = {
    "a provider with keys": Protocol(payment.WITH_KEYS, payment.WITH_KEYS.declared()),
    "a provider without keys": Protocol(payment.WITHOUT_KEYS, payment.WITHOUT_KEYS.declared()),
    "an ERP": Protocol(books.TIMES, books.DRAFTS),
}


@cache
def _reached(name: str) -> frozenset[Row]:
    """Every row a search meets."""
    if name == "an ERP":
        erp = books.World(unique=False, numbers=2)
        return frozenset(state.row for state in search(erp.start, erp.steps, erp.harm).states)
    provider = payment.World(COUNTERPARTS[name].times, prompt=True)
    found = search(payment.State(), provider.steps, provider.harm)
    return frozenset(state.row for state in found.states)


@pytest.fixture(params=COUNTERPARTS)
def name(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> str:
    """One kind of counterpart, and the product set to the model's times."""
    name = str(request.param)
    times = COUNTERPARTS[name].times
    settings.OUTBOUND_TIMING = vars(times.timing)
    monkeypatch.setattr(outbound, "KEY_MEMORY_MARGIN", times.safety * TICK)
    monkeypatch.setattr(outbound, "transaction", SimpleNamespace(atomic=nullcontext))
    monkeypatch.setattr(outbound, "boot_seconds", lambda: 0)
    return name


def test_claims_agree(name: str) -> None:
    protocol = COUNTERPARTS[name]
    times = protocol.times
    steps = dict.fromkeys(Step, 0)
    for row in _reached(name):
        mine = rows.claim(row, protocol)
        product_row = _product_row(row, times)
        theirs = outbound.claim(ROWS, ATTEMPTS, 1, protocol.capabilities)
        after = _model_row(product_row, times)
        if isinstance(theirs, Decision):
            steps[theirs.step] += 1
            assert mine == (None if theirs.step is Step.WAIT else (after, None)), row
            continue
        steps[Step(theirs.purpose.value)] += 1
        assert theirs.call_before == times.calls_within * TICK_SECONDS
        asked_after = times.told_apart(after.sent_age)
        assert mine == (after, Claim(theirs.purpose, asked_after, calls_left=1)), row
    assert all(steps.values()), steps


def _records(row: Row) -> Iterable[tuple[Claim, Outcome]]:
    """Every answer that the holder of a row's lease can come back with."""
    if row.lease_left == NEVER:
        return
    sent = row.state == TaskState.SENDING
    purpose = Purpose.SEND if sent else Purpose.ASK
    for asked_after in {0} if sent else {0, row.sent_age}:
        for answer, outcome in OUTCOMES.items():
            if answer != "absent" or not sent:
                yield Claim(purpose, asked_after), outcome


def test_records_agree(name: str) -> None:
    protocol = COUNTERPARTS[name]
    times = protocol.times
    verdicts: set[Verdict] = set()
    for row in _reached(name):
        for claim, outcome in _records(row):
            product_row = _product_row(row, times)
            asked_at = NOW + (claim.asked_after - row.sent_age) * TICK
            theirs = outbound.Claim(1, LEASE, Purpose(claim.purpose), asked_at, 0)
            assert outbound.holds(product_row, theirs)
            judgement = outbound.record(
                product_row, ATTEMPTS, theirs, outcome, protocol.capabilities
            )
            verdicts.add(judgement.verdict)
            told = claim._replace(asked_after=times.told_apart(claim.asked_after))
            mine = rows.record(row, told, outcome, protocol)
            assert mine == _model_row(product_row, times), (row, claim, outcome)
    assert {Verdict.SUCCEED, Verdict.DOUBT, Verdict.STAY} <= verdicts


def test_news_agree(name: str) -> None:
    protocol = COUNTERPARTS[name]
    times = protocol.times
    for row in _reached(name):
        for answer in ("paid", "pending", "failed"):
            outcome = OUTCOMES[answer]
            taken_back = isinstance(outcome, Refused) == (row.state == TaskState.SUCCEEDED)
            if row.state in (TaskState.DECLINED, TaskState.RETURNED) or not taken_back:
                continue
            product_row = _product_row(row, times)
            outbound.take_news(product_row, Purpose.ASK, outcome, protocol.capabilities)
            mine = rows.take_news(row, outcome, protocol)
            assert mine == _model_row(product_row, times), (row, answer)


def test_what_people_do_agrees(name: str) -> None:
    protocol = COUNTERPARTS[name]
    times = protocol.times
    for row in _reached(name):
        if row.state not in (TaskState.DECLINED, TaskState.RETURNED):
            product_row = _product_row(row, times)
            outbound.look_now(product_row, NOW)
            assert rows.look_now(row) == _model_row(product_row, times), row
        if row.state == TaskState.STUCK:
            product_row = _product_row(row, times)
            proven = outbound.proven_undone(product_row, protocol.capabilities)
            assert proven == (rows.declare_unpaid(row, protocol) is not None), row
