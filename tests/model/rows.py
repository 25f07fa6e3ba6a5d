"""One row of the outbound protocol in symbolic time, moved by the product's own decisions.

Times are whole ticks relative to now, so that states which differ only in the date are one state.
A tick stands for nothing in particular: the lengths in `Times` are chosen so that every order of
lease end, travel time, look-up lag and key window occurs. What is further away than any rule asks
about is cut off, which makes the number of states finite without a bound on time.

`decide` and `judge` are the product's. The few writes around them repeat `payments.outbound`
without its database; test_writes.py holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from payments.outcomes import Capabilities, Outcome, Purpose
from payments.protocol import (
    DEATHS_BEFORE_PARKING,
    Facts,
    Judgement,
    Step,
    Timing,
    Verdict,
    is_quiet,
)
from returns.states import TASK_EDGES, TASK_FINAL, TaskState, edge, pairs
from tests.model.rules import ALL_ON, Rules

NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)
TICK = timedelta(hours=1)
TICK_SECONDS = int(TICK.total_seconds())
AMOUNT_MINOR, CURRENCY = 5000, "EUR"
EDGES = frozenset(pairs(TASK_EDGES))
NEVER = -1


@dataclass(frozen=True)
class Times:
    """Lengths in ticks. `lease` covers waiting and `call`; the margin for clocks is not modelled.

    `travel`, `lag` and `memory` are what the counterpart declares (`memory` None: knows no keys);
    `safety` is how long before the end of that memory the last lease must have ended.
    """

    lease: int = 1
    call: int = 0
    travel: int = 3
    lag: int = 3
    memory: int | None = None
    safety: int = 3

    @property
    def quiet(self) -> int:
        """Ticks from a send after which nothing of it can be under way or unseen."""
        return self.lease + self.travel + self.lag + 1

    def told_apart(self, ticks: int) -> int:
        """A distance from a send, rounded down to the nearest one that any rule could ask about.

        These are a tick past the lag, past lease and travel or lag alone, and past all of them.
        """
        marks = (self.quiet, self.lease + self.travel + 1, self.lease + self.lag + 1, self.lag + 1)
        return max((mark for mark in marks if mark <= ticks), default=0)

    @property
    def calls_within(self) -> int:
        """Ticks from a claim in which its call may start."""
        return self.lease - self.call

    @property
    def timing(self) -> Timing:
        return Timing(self.lease * TICK_SECONDS, self.call * TICK_SECONDS, 0)

    def declared(self) -> Capabilities:
        """What a payment provider with these times says of itself."""
        return Capabilities(
            key_memory_seconds=None if self.memory is None else self.memory * TICK_SECONDS,
            lookup_lag_seconds=self.lag * TICK_SECONDS,
            max_under_way_seconds=self.travel * TICK_SECONDS,
            may_fail_after_success=True,
        )


@dataclass(frozen=True)
class Protocol:
    """The rules as they stand, for one counterpart."""

    times: Times
    capabilities: Capabilities
    rules: Rules = ALL_ON


class Row(NamedTuple):
    """The protocol's fields of a task. Ages and distances in ticks; NEVER where there is none."""

    state: str = TaskState.PENDING
    lease_left: int = NEVER  # 0: the lease has ended and nobody has noticed
    has_look: bool = True
    sent_age: int = NEVER
    safe_left: int | None = None  # -1: the window has closed
    absent_after: int = NEVER  # from the last send to the start of the look-up that saw nothing
    in_doubt: bool = False
    refused_in_doubt: bool = False
    deaths: int = 0
    has_word: bool = False  # a person is told why it was set aside


class Claim(NamedTuple):
    """What a worker carries from its claim to its record."""

    purpose: str
    asked_after: int  # from the last send to the claim
    holds: bool = True  # the lease token still stands
    calls_left: int = 0  # ticks in which the call may still start


def facts(row: Row, times: Times) -> Facts:
    """The row as the product reads it. A look that is scheduled counts as due: it may be."""

    def at(ticks: int) -> datetime:
        return NOW + ticks * TICK

    sent = None if row.sent_age == NEVER else -row.sent_age
    return Facts(
        now=NOW,
        state=row.state,
        lease_until=None if row.lease_left == NEVER else at(row.lease_left),
        next_look_at=NOW if row.has_look else None,
        last_sent_at=None if sent is None else at(sent),
        last_send_ends_at=None if sent is None else at(sent + times.lease),
        safe_retry_until=None if row.safe_left is None else at(row.safe_left),
        absent_at=None
        if sent is None or row.absent_after == NEVER
        else at(sent + row.absent_after),
        in_doubt=row.in_doubt,
        refused_in_doubt=row.refused_in_doubt,
        deaths=row.deaths,
        quiet_looks=0,
        amount_minor=AMOUNT_MINOR,
        currency=CURRENCY,
    )


def tick(row: Row, times: Times) -> Row:
    """One tick later."""
    return row._replace(
        lease_left=max(row.lease_left - 1, 0) if row.lease_left != NEVER else NEVER,
        sent_age=min(row.sent_age + 1, times.quiet) if row.sent_age != NEVER else NEVER,
        safe_left=None if row.safe_left is None else max(row.safe_left - 1, -1),
    )


def claim(row: Row, protocol: Protocol) -> tuple[Row, Claim | None] | None:
    """A worker takes the row: the row, and its claim unless it was set aside; None for WAIT."""
    times = protocol.times
    decision = protocol.rules.decide(facts(row, times), protocol.capabilities, times.timing)
    if decision.step is Step.WAIT:
        return None
    if decision.step is Step.PARK:
        doubt = row.in_doubt or row.state == TaskState.SENDING
        return _set_aside(row._replace(in_doubt=doubt), decision.attention), None
    leased = row._replace(
        lease_left=times.lease,
        has_look=True,
        deaths=min(row.deaths + (row.lease_left != NEVER), DEATHS_BEFORE_PARKING - 1),
        in_doubt=row.in_doubt or row.state == TaskState.SENDING,
    )
    if decision.step is Step.SEND:
        leased = _sending(leased, times)
    elif row.state == TaskState.SENDING:
        leased = leased._replace(state=TaskState.UNKNOWN)
    asked_after = times.told_apart(leased.sent_age)
    return leased, Claim(decision.step.value, asked_after, calls_left=times.calls_within)


def _sending(row: Row, times: Times) -> Row:
    safe_left = row.safe_left
    if safe_left is None and times.memory is not None:
        safe_left = times.memory - times.safety
    return row._replace(
        state=TaskState.SENDING,
        sent_age=0,
        safe_left=safe_left,
        # An earlier "absent" is at best as young as this send.
        absent_after=min(row.absent_after, 0),
    )


def _set_aside(row: Row, word: str) -> Row:
    return row._replace(
        state=TaskState.STUCK, lease_left=NEVER, has_look=False, has_word=bool(word)
    )


def record(row: Row, claim: Claim, outcome: Outcome, protocol: Protocol) -> Row:
    """Write what a call ended in; the caller has looked at the lease token."""
    times = protocol.times
    now = facts(row, times)
    asked_at = NOW if now.last_sent_at is None else now.last_sent_at + claim.asked_after * TICK
    judgement = protocol.rules.judge(
        now, Purpose(claim.purpose), asked_at, outcome, protocol.capabilities
    )
    row = row._replace(
        in_doubt=judgement.in_doubt, refused_in_doubt=judgement.refused_in_doubt, deaths=0
    )
    if judgement.absent:
        row = row._replace(absent_after=claim.asked_after)
    if judgement.verdict is Verdict.DEFER:
        # Certainly not applied: the time in which the key is remembered has not begun.
        row = row._replace(safe_left=None)
    return _moved(row, judgement)


def take_news(row: Row, outcome: Outcome, protocol: Protocol) -> Row:
    """News that came without our asking; ends any lease."""
    now = facts(row, protocol.times)
    judgement = protocol.rules.judge(now, Purpose.ASK, NOW, outcome, protocol.capabilities)
    return _moved(row, judgement)


def look_now(row: Row) -> Row:
    """Somebody wants to know, or news contradict what we know: due at once, whoever holds it."""
    due = row._replace(lease_left=NEVER, has_look=True)
    if row.state == TaskState.STUCK:
        return due._replace(
            state=TaskState.UNKNOWN, in_doubt=True, absent_after=NEVER, has_word=False
        )
    if row.state == TaskState.SENDING:
        return due._replace(state=TaskState.UNKNOWN, in_doubt=True)
    return row if due == row else due


def declare_unpaid(row: Row, protocol: Protocol) -> Row | None:
    """A person's decision on a row that was set aside, where a look-up proves it; else None."""
    now = facts(row, protocol.times)
    if row.state != TaskState.STUCK or not is_quiet(now, now.absent_at, protocol.capabilities):
        return None
    return row._replace(state=TaskState.DECLINED, has_word=False)


def _moved(row: Row, judgement: Judgement) -> Row:
    verdict = judgement.verdict
    if verdict is Verdict.PARK:
        return _set_aside(row, judgement.attention)
    state = row.state if verdict is Verdict.STAY else edge(TASK_EDGES, verdict.value).target
    final = verdict in (Verdict.SUCCEED, Verdict.DECLINE, Verdict.GIVE_BACK)
    return row._replace(
        state=state,
        lease_left=NEVER,
        has_look=judgement.look_after_seconds is not None and not final,
        has_word=state == TaskState.STUCK and row.has_word,
    )


def harm_to_row(before: Row, after: Row) -> str:
    """What no step may do to a row, whoever takes it; empty when all is well."""
    if before.state == TaskState.SUCCEEDED and after.state not in TASK_FINAL:
        return "a success was forgotten"
    at_rest = after.state in TASK_FINAL or after.state == TaskState.STUCK
    if not at_rest and not after.has_look:
        return "nobody will look at it again"
    if after.state == TaskState.STUCK and not after.has_word:
        return "set aside without a word to a person"
    return ""


def follows_an_edge(before: Row, after: Row) -> bool:
    """Whether the database would let a row move so."""
    return before.state == after.state or (before.state, after.state) in EDGES
