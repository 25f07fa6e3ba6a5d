"""One credit between two posting workers, a careless network and an ERP with drafts, searched.

What a worker asks of the ERP and in which order is the product's own code: it is run again and
again against a script of the answers so far, until it wants the next call. The world: requests
that arrive late or never (a late create gets any number, lower ones too), workers that die or
stall between any two calls, an ERP that may refuse, an ERP that holds our reference unique or not,
a person who tries again, and the tidying of spare drafts once the credit is posted.

Bounded: two workers, three entries ever made, two requests on the wire beside the one awaited.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import cache
from typing import NamedTuple
from uuid import UUID

from payments import outbound
from payments.outcomes import Capabilities, Outcome, Purpose
from reconciliation import dispatch
from reconciliation.erp.base import Credit, Entry, ErpRefused, ErpUnknown
from returns.states import TaskState
from tests.model import rows
from tests.model.rows import AMOUNT_MINOR, CURRENCY, NEVER, NOW, Claim, Protocol, Row, Times

NUMBERS = (1, 2, 3)
MOST_ON_THE_WIRE = 2
TIMES = Times(travel=1, lag=0)
DRAFTS = Capabilities(
    key_memory_seconds=None,
    lookup_lag_seconds=0,
    max_under_way_seconds=TIMES.travel * rows.TICK_SECONDS,
    repeat_is_harmless=True,
    two_steps=True,
    refusal_needs_a_person=True,
)
CREDIT = Credit(UUID(int=1), "1001", AMOUNT_MINOR, CURRENCY, date(2026, 4, 10), "Refund")


class ErpRule(StrEnum):
    """What keeps a credit from being posted twice."""

    DRAFTS_FIRST = "create drafts only, and post in a second step"
    POSTED_WINS = "a posted entry wins over every draft"
    SPARES_DELETED = "delete the other drafts before posting one"
    DELETES_CHECKED = "check that each delete succeeded"


class Call(NamedTuple):
    """One request to the ERP."""

    kind: str  # find | create | post | delete
    number: int = NEVER


class Answer(NamedTuple):
    """What came back: entries as (number, posted), a refusal, or nothing."""

    kind: str  # found | refused | no answer
    entries: tuple[tuple[int, bool], ...] = ()
    code: str = ""


NO_ANSWER = Answer("no answer")


class _Wants(Exception):
    """The script has come to its end; this call would be next."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.call = call


@dataclass
class ScriptedErp:
    """The ERP as a worker meets it: the answers so far, and then a wish for one more."""

    answers: tuple[Answer, ...]
    off: ErpRule | None
    capabilities: Capabilities = DRAFTS
    taken: int = field(default=0, init=False)

    def find(self, reference: UUID) -> list[Entry]:
        entries = [_entry(*entry) for entry in self._ask(Call("find"))]
        if self.off is ErpRule.POSTED_WINS:
            return [replace(entry, posted=False) for entry in entries]
        if self.off is ErpRule.SPARES_DELETED:
            return [entry for entry in entries if entry.posted] or entries[:1]
        return entries

    def create_draft(self, credit: Credit) -> Entry:
        return _entry(*self._ask(Call("create"))[0])

    def post(self, entry: str) -> Entry:
        return _entry(*self._ask(Call("post", int(entry)))[0])

    def delete_draft(self, entry: str) -> None:
        try:
            self._ask(Call("delete", int(entry)))
        except (ErpRefused, ErpUnknown):
            if self.off is not ErpRule.DELETES_CHECKED:
                raise

    def entries(self, start: date, end: date) -> Iterator[Entry]:
        raise NotImplementedError

    def _ask(self, call: Call) -> tuple[tuple[int, bool], ...]:
        if self.taken == len(self.answers):
            raise _Wants(call)
        answer = self.answers[self.taken]
        self.taken += 1
        if answer.kind == "refused":
            raise ErpRefused(answer.code, answer.code)
        if answer.kind == "no answer":
            raise ErpUnknown("no answer")
        return answer.entries


def _entry(number: int, posted: bool) -> Entry:
    return Entry(str(number), str(CREDIT.reference), AMOUNT_MINOR, CURRENCY, posted)


@cache
def next_of(
    purpose: str, answers: tuple[Answer, ...], may_call: bool, off: ErpRule | None
) -> Call | Outcome:
    """What the product does after these answers: one more call, or the outcome."""
    call_before = float("inf") if may_call else 0.0
    claim = outbound.Claim(1, 1, Purpose(purpose), NOW, call_before)
    try:
        return dispatch._call(ScriptedErp(answers, off), claim, CREDIT)
    except _Wants as wish:
        return wish.call


@cache
def _future(
    purpose: str, answers: tuple[Answer, ...], may_call: bool, off: ErpRule | None
) -> Hashable:
    """All that can still come of these answers: equal futures are one state."""
    now = [next_of(purpose, answers, may, off) for may in {may_call, False}]
    return tuple(map(repr, now)), tuple(
        _future(purpose, (*answers, answer), may_call, off)
        for call in now
        if isinstance(call, Call)
        for answer in _possible(call)
    )


def _possible(call: Call) -> list[Answer]:
    """Every answer there may be to a call that changes something; a look-up starts anew."""
    happy: dict[str, list[tuple[tuple[int, bool], ...]]] = {
        "create": [((number, posted),) for number in NUMBERS for posted in (False, True)],
        "post": [((call.number, True),)],
        "delete": [()],
    }
    if call.kind == "find":
        return []
    refusals = (dispatch.DUPLICATE, "closed_period", "posted", "not_found")
    return [
        NO_ANSWER,
        *(Answer("refused", code=code) for code in refusals),
        *(Answer("found", entries) for entries in happy[call.kind]),
    ]


_ALIKE: dict[Hashable, tuple[Answer, ...]] = {}


@cache
def _alike(
    purpose: str, answers: tuple[Answer, ...], may_call: bool, off: ErpRule | None
) -> tuple[Answer, ...]:
    """The first answers met that have the same future."""
    future = _future(purpose, answers, may_call, off)
    return _ALIKE.setdefault((purpose, off, future), answers)


@cache
def _is_last(
    purpose: str, answers: tuple[Answer, ...], may_call: bool, off: ErpRule | None
) -> bool:
    """Whether no further call follows the next one, whatever it brings."""
    call = next_of(purpose, answers, may_call, off)
    return not isinstance(call, Call) or not any(
        isinstance(next_of(purpose, (*answers, answer), may_call, off), Call)
        for answer in _possible(call)
    )


class Worker(NamedTuple):
    """A worker's claim, the answers it has had, and whether it waits for one more."""

    claim: Claim | None = None
    answers: tuple[Answer, ...] = ()
    waits: bool = False


IDLE = Worker()
_ALL_IDLE = (IDLE, IDLE)


class Request(NamedTuple):
    """A request under way, and who waits for its answer (or NEVER)."""

    call: Call
    worker: int


class State(NamedTuple):
    """Everything there is at one moment; entries as (number, posted), lowest first."""

    row: Row = Row()
    workers: tuple[Worker, Worker] = _ALL_IDLE
    wire: tuple[Request, ...] = ()
    entries: tuple[tuple[int, bool], ...] = ()
    free: tuple[int, ...] = NUMBERS


Steps = Iterator[tuple[str, State]]


class World:
    """The steps that are possible with one kind of ERP and one set of rules."""

    def __init__(
        self, *, unique: bool, off: ErpRule | None = None, numbers: int = len(NUMBERS)
    ) -> None:
        self.unique, self.off = unique, off
        self.start = State(free=NUMBERS[:numbers])
        protocol = Protocol(TIMES, DRAFTS)
        self._claimed = cache(lambda row: rows.claim(row, protocol))
        self._recorded = cache(
            lambda row, claim, outcome: rows.record(row, claim, outcome, protocol)
        )
        self._worth = cache(self._left_of)
        self._row_harm = cache(rows.harm_to_row)

    def steps(self, state: State) -> Steps:
        """Everything that can happen next, in words, and what is the case then."""
        for text, after in self._all_steps(state):
            yield text, self._settled(after)

    def _all_steps(self, state: State) -> Steps:
        for i, worker in enumerate(state.workers):
            if worker.claim is not None:
                yield from self._worker_steps(state, i, worker, worker.claim)
            # Two idle workers are alike.
            elif i == 0 or state.workers[0].claim is not None:
                yield from self._claims(state, i)
        for request in state.wire:
            yield from self._arrivals(state, request)
        asked = rows.look_now(state.row)
        if state.row.state == TaskState.STUCK:
            yield "a person tries again", state._replace(row=asked)
        if state.row.state == TaskState.SUCCEEDED:
            for entry in state.entries:
                if not entry[1]:
                    yield f"draft {entry[0]} is tidied away", _without(state, entry)
        yield "time passes", _later(state)

    def _claims(self, state: State, i: int) -> Steps:
        claimed = self._claimed(state.row)
        if claimed is None:
            return
        row, claim = claimed
        if claim is None:
            yield f"worker {i + 1} sets it aside", state._replace(row=row)
            return
        taken = _lease_taken(state)._replace(row=row)
        yield f"worker {i + 1} claims it to {claim.purpose}", _with(taken, i, Worker(claim))

    def _worker_steps(self, state: State, i: int, worker: Worker, claim: Claim) -> Steps:
        me = f"worker {i + 1}"
        yield f"{me} dies", _with(state, i, IDLE)
        if worker.waits:
            yield f"{me} stops waiting", _answered(state, i, NO_ANSWER)
            return
        wants = self._next(worker)
        if not isinstance(wants, Call):
            if claim.holds:
                row = self._recorded(state.row, claim, wants)
                words = type(wants).__name__.lower()
                yield f"{me} records: {words}", _with(state, i, IDLE)._replace(row=row)
        elif wants.kind == "find":
            seen = Answer("found", state.entries)
            shown = [f"{n}{' posted' if posted else ''}" for n, posted in state.entries]
            yield f"{me} finds: {', '.join(shown) or 'nothing'}", _answered(state, i, seen)
            yield f"{me} finds: no answer", _answered(state, i, NO_ANSWER)
        elif len(state.wire) < MOST_ON_THE_WIRE:
            sent = _with(state, i, worker._replace(waits=True))
            yield (
                f"{me} sends: {_words(wants)}",
                sent._replace(wire=(*sent.wire, Request(wants, i))),
            )

    def _next(self, worker: Worker) -> Call | Outcome:
        assert worker.claim is not None
        return next_of(worker.claim.purpose, worker.answers, worker.claim.calls_left > 0, self.off)

    def _arrivals(self, state: State, request: Request) -> Steps:
        wire = list(state.wire)
        wire.remove(request)
        gone = state._replace(wire=tuple(wire))
        for text, after, answer in self._effects(gone, request.call):
            heard = after
            if request.worker != NEVER:
                heard = _answered(after, request.worker, answer)
            yield f"the ERP gets {_words(request.call)}: {text}", heard

    def _effects(self, state: State, call: Call) -> Iterator[tuple[str, State, Answer]]:
        if call.kind == "create":
            yield from self._creations(state)
            return
        draft, posted = (call.number, False), (call.number, True)
        if draft in state.entries:
            without = _without(state, draft)
            if call.kind == "delete":
                yield "gone", without, Answer("found")
            else:
                after = without._replace(entries=tuple(sorted((*without.entries, posted))))
                yield "posted", after, Answer("found", (posted,))
                yield "refused", state, Answer("refused", code="closed_period")
        elif posted in state.entries:
            if call.kind == "delete":
                yield "refused", state, Answer("refused", code="posted")
            else:
                yield "posted already", state, Answer("found", (posted,))
        elif call.kind == "delete":
            yield "gone already", state, Answer("found")
        else:
            yield "no such entry", state, Answer("refused", code="not_found")

    def _creations(self, state: State) -> Iterator[tuple[str, State, Answer]]:
        if self.unique and state.entries:
            yield "duplicate", state, Answer("refused", code=dispatch.DUPLICATE)
            return
        for number in state.free:
            entry = (number, self.off is ErpRule.DRAFTS_FIRST)
            after = state._replace(
                entries=tuple(sorted((*state.entries, entry))),
                free=tuple(n for n in state.free if n != number),
            )
            yield f"entry {number}", after, Answer("found", (entry,))
        yield "refused", state, Answer("refused", code="closed_period")

    def _settled(self, state: State) -> State:
        """The same state without what can have no effect any more."""
        if state.workers != _ALL_IDLE:
            leased = state.row.lease_left != NEVER
            one, two = (self._worth(worker, leased) for worker in state.workers)
            if (one, two) != state.workers:
                state = state._replace(workers=(one, two))
        if state.wire:
            state = state._replace(wire=_worth_keeping(state))
        return state

    def _left_of(self, worker: Worker, leased: bool) -> Worker:
        """The worker, or an idle one where it will neither call nor write."""
        if not leased:
            worker = _without_lease(worker)
        claim = worker.claim
        if claim is None:
            return worker
        if not worker.answers and not worker.waits:
            return worker if claim.calls_left else IDLE
        script = (claim.purpose, worker.answers, claim.calls_left > 0, self.off)
        if not claim.holds:
            ends = _is_last(*script) if worker.waits else isinstance(next_of(*script), Outcome)
            if ends:
                return IDLE
        return worker._replace(answers=_alike(*script))

    def harm(self, before: State, after: State) -> str:
        """What must never be the case, in words; empty when all is well."""
        posted = sum(is_posted for _, is_posted in after.entries)
        if posted > 1:
            return "two posted credits"
        if after.row.state == TaskState.SUCCEEDED and not posted:
            return "said posted while nothing was"
        if before.row is after.row:
            return ""
        harm = self._row_harm(before.row, after.row)
        if not harm and not rows.follows_an_edge(before.row, after.row):
            return f"no edge leads from {before.row.state} to {after.row.state}"
        return harm


def is_done(state: State) -> bool:
    """Posted, and known to be."""
    return state.row.state == TaskState.SUCCEEDED


def _later(state: State) -> State:
    one, two = (
        w if w.claim is None else w._replace(claim=w.claim._replace(calls_left=0))
        for w in state.workers
    )
    return state._replace(row=rows.tick(state.row, TIMES), workers=(one, two))


def _with(state: State, i: int, worker: Worker) -> State:
    one, two = state.workers
    return state._replace(workers=(worker, two) if i == 0 else (one, worker))


def _without(state: State, entry: tuple[int, bool]) -> State:
    return state._replace(entries=tuple(e for e in state.entries if e != entry))


def _answered(state: State, i: int, answer: Answer) -> State:
    worker = state.workers[i]
    return _with(state, i, worker._replace(answers=(*worker.answers, answer), waits=False))


def _lease_taken(state: State) -> State:
    """The lease goes to another worker."""
    one, two = (_without_lease(worker) for worker in state.workers)
    return state._replace(workers=(one, two))


def _without_lease(worker: Worker) -> Worker:
    """What it has heard matters to its further calls only."""
    if worker.claim is None:
        return worker
    return worker._replace(claim=worker.claim._replace(holds=False, asked_after=0))


def _worth_keeping(state: State) -> tuple[Request, ...]:
    """The requests under way that can still change something, or whose answer is awaited."""
    requests = (
        r if r.worker == NEVER or state.workers[r.worker].waits else r._replace(worker=NEVER)
        for r in state.wire
    )
    return tuple(sorted(r for r in requests if r.worker != NEVER or _has_effect(state, r.call)))


def _has_effect(state: State, call: Call) -> bool:
    return call.kind == "create" or (call.number, False) in state.entries


def _words(call: Call) -> str:
    return call.kind if call.number == NEVER else f"{call.kind} {call.number}"
