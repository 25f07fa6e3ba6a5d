"""One payment between two workers, a careless network, a provider and its webhooks, searched.

The world: two workers that may die or stall anywhere, one payment that may be declined or come
back and then be paid once more (two generations), requests that arrive late, twice or never,
leases that end, a provider that pays at once or after a while, refuses, asks to wait, fails, takes
back what it paid, and forgets keys; webhooks of everything that ever happened, at any time, in any
order, any number of times; and a person who asks again whenever they like.

Bounded: two workers, two generations, three requests on the wire at once, three different keys
where the rule of the one key is off. Not bounded: time, attempts, look-ups, events. What a
provider that knows no keys does with a request that the network itself doubles is no question of
ours, so there requests arrive once at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from payments.outcomes import (
    Absent,
    Accepted,
    Deferred,
    Outcome,
    Purpose,
    Refused,
    Settled,
    Unknown,
)
from returns.states import TASK_FINAL, TaskState
from tests.model import rows
from tests.model.rows import AMOUNT_MINOR, CURRENCY, NEVER, Claim, Protocol, Row, Times
from tests.model.rules import ALL_ON, Rule, Rules

MOST_ON_THE_WIRE, MOST_KEYS, GENERATIONS = 3, 3, 2
# A provider that keeps keys for a while, and one that has never heard of them.
WITH_KEYS = Times(travel=2, lag=1, memory=6, safety=2)
WITHOUT_KEYS = Times()

OUTCOMES: dict[str, Outcome] = {
    "paid": Settled("re_1", AMOUNT_MINOR, CURRENCY),
    "pending": Accepted("re_1", AMOUNT_MINOR, CURRENCY),
    "failed": Refused("refund_failed", "re_1"),
    "refused": Refused("refused", "no"),
    "deferred": Deferred("later"),
    "absent": Absent(),
    "no answer": Unknown("no answer"),
    "several": Unknown("several refunds under one key", alarm="more_than_one_payment"),
}
# What has happened to a refund in the course of its life; each of it was also an event.
HISTORY = {
    "pending": ("pending",),
    "paid": ("pending", "paid"),
    "failed": ("pending", "failed"),
    "came back": ("pending", "paid", "failed"),
}
EVENTS = ("pending", "paid", "failed")
_OWED_AGAIN = (TaskState.DECLINED, TaskState.RETURNED)
_MAY_BE_ASKED_ABOUT = (
    TaskState.PENDING,
    TaskState.UNKNOWN,
    TaskState.ACCEPTED,
    TaskState.STUCK,
    TaskState.SUCCEEDED,
)
_BECOMES = {"pending": ("paid", "failed"), "paid": ("came back",)}


class Worker(NamedTuple):
    """Where a worker is: idle, claimed (before the call), waiting (for its answer), answered."""

    phase: str = "idle"
    generation: int = 0
    claim: Claim | None = None
    answer: str = ""


IDLE = Worker()
_ALL_IDLE = (IDLE, IDLE)


class Request(NamedTuple):
    """A request under way: who waits for its answer (or NEVER), and how long it can travel yet."""

    generation: int
    key: int
    left: int
    worker: int


class Refund(NamedTuple):
    """A refund: look-ups may miss it for `unseen` ticks, its key is recognised for `known`."""

    generation: int
    key: int
    state: str
    unseen: int
    known: int


class State(NamedTuple):
    """Everything there is at one moment."""

    row: Row = Row()
    generation: int = 1
    news: int = -1  # the latest event that was applied to this generation
    declined: bool = False  # the first generation ended in a decline
    workers: tuple[Worker, Worker] = _ALL_IDLE
    wire: tuple[Request, ...] = ()
    refunds: tuple[Refund, ...] = ()
    keys: int = 0  # keys used so far, counted only where the rule of the one key is off


Steps = Iterator[tuple[str, State]]


class World:
    """The steps that are possible under one set of rules, with one kind of provider.

    `actual` is how the provider behaves where that differs from what it declares. A `prompt` one
    pays or refuses at once and for good: enough to look for harm, and far fewer states.
    """

    def __init__(
        self,
        declared: Times,
        rules: Rules = ALL_ON,
        *,
        actual: Times | None = None,
        prompt: bool = False,
    ) -> None:
        self.rules = rules
        self.answers = ("paid",) if prompt else ("paid", "pending")
        self.refusals = ("refused",) if prompt else ("refused", "deferred")
        self.becomes = {} if prompt else _BECOMES
        self.asked_about = (TaskState.STUCK,) if prompt else _MAY_BE_ASKED_ABOUT
        self.times = actual or declared
        protocol = Protocol(declared, declared.declared(), rules)
        # A row has far fewer states than the world; each decision about one is made once.
        self._claimed = cache(lambda row: rows.claim(row, protocol))
        self._recorded = cache(
            lambda row, claim, answer: rows.record(row, claim, OUTCOMES[answer], protocol)
        )
        self._told = cache(lambda row, says: rows.take_news(row, OUTCOMES[says], protocol))
        self._looked = cache(rows.look_now)
        self._declared = cache(lambda row: rows.declare_unpaid(row, protocol))
        self._worth = cache(self._left_of)
        self._row_harm = cache(lambda before, after: _harm_to_row(before, after, rules))
        self._tick = cache(lambda row: rows.tick(row, declared))

    def steps(self, state: State) -> Steps:
        """Everything that can happen next, in words, and what is the case then."""
        for text, after in self._all_steps(state):
            yield text, self._settled(after)

    def _all_steps(self, state: State) -> Steps:
        for i, worker in enumerate(state.workers):
            yield from self._worker_steps(state, i, worker)
        for request in set(state.wire):
            yield from self._arrivals(state, request)
        for n, refund in enumerate(state.refunds):
            for becomes in self.becomes.get(refund.state, ()):
                yield (
                    f"the provider's refund is now: {becomes}",
                    _with_refund(state, n, refund._replace(state=becomes)),
                )
            if refund.generation == state.generation:
                yield from self._events(state, refund)
        if state.row.state in self.asked_about:
            asked = self._looked(state.row)
            if asked is not state.row:
                yield "a person asks again", state._replace(row=asked)
        if declared := self._declared(state.row):
            yield "a person declares it unpaid", state._replace(row=declared)
        if state.row.state in _OWED_AGAIN and state.generation < GENERATIONS:
            yield (
                "released and approved once more",
                state._replace(
                    row=Row(),
                    generation=state.generation + 1,
                    news=-1,
                    declined=state.row.state == TaskState.DECLINED,
                ),
            )
        yield "time passes", self._later(state)

    def _worker_steps(self, state: State, i: int, worker: Worker) -> Steps:
        me = f"worker {i + 1}"
        if worker.phase == "idle":
            # Two idle workers are alike.
            if i == 0 or state.workers[0].phase != "idle":
                yield from self._claims(state, i)
            return
        yield f"{me} dies", _with_worker(state, i, IDLE)
        assert worker.claim is not None
        if worker.phase == "claimed":
            if not worker.claim.calls_left and self.rules.on(Rule.LEASE_CHECK):
                return
            if worker.claim.purpose == Purpose.SEND:
                yield from self._send(state, i, worker)
            else:
                for answer in self._look_ups(state, worker.generation):
                    heard = worker._replace(phase="answered", answer=answer)
                    yield f"{me} looks it up: {answer}", _with_worker(state, i, heard)
        elif worker.phase == "waiting":
            heard = worker._replace(phase="answered", answer="no answer")
            yield f"{me} stops waiting", _with_worker(state, i, heard)
        else:
            yield from self._records(state, i, worker)

    def _claims(self, state: State, i: int) -> Steps:
        claimed = self._claimed(state.row)
        if claimed is None:
            return
        row, claim = claimed
        if claim is None:
            yield f"worker {i + 1} sets it aside", state._replace(row=row)
            return
        after = _with_worker(
            _lease_taken(state, sent=claim.purpose == Purpose.SEND)._replace(row=row),
            i,
            Worker("claimed", state.generation, claim),
        )
        yield f"worker {i + 1} claims it to {claim.purpose}", after

    def _send(self, state: State, i: int, worker: Worker) -> Steps:
        if len(state.wire) >= MOST_ON_THE_WIRE or state.keys >= MOST_KEYS:
            return
        key = state.keys
        if not self.rules.on(Rule.SAME_KEY):
            state = state._replace(keys=key + 1)
        request = Request(worker.generation, key, self.times.travel, i)
        sent = _with_worker(state, i, worker._replace(phase="waiting"))
        text = f"worker {i + 1} sends generation {worker.generation}"
        yield text, sent._replace(wire=(*sent.wire, request))

    def _look_ups(self, state: State, generation: int) -> Iterator[str]:
        ours = [refund for refund in state.refunds if refund.generation == generation]
        if all(refund.unseen for refund in ours):
            yield "absent"
        if alive := [refund for refund in ours if refund.state in ("paid", "pending")]:
            yield alive[0].state if len(alive) == 1 else "several"
        elif ours:
            yield "failed"
        yield "no answer"

    def _records(self, state: State, i: int, worker: Worker) -> Steps:
        claim = worker.claim
        assert claim is not None
        free = _with_worker(state, i, IDLE)
        if worker.generation != state.generation:
            return
        if claim.holds or not self.rules.on(Rule.LEASE_TOKEN):
            row = self._recorded(state.row, claim._replace(holds=True), worker.answer)
            yield f"worker {i + 1} records: {worker.answer}", free._replace(row=row)

    def _arrivals(self, state: State, request: Request) -> Steps:
        """A request reaches the provider; where keys are known a copy of it may travel on."""
        left = list(state.wire)
        left.remove(request)
        gone = state._replace(wire=tuple(left))
        copied = gone._replace(wire=(*gone.wire, request._replace(worker=NEVER)))
        gets = f"the provider gets generation {request.generation}"
        for refund in state.refunds:
            if (refund.generation, refund.key) == request[:2] and refund.known:
                for answer in HISTORY[refund.state]:
                    text = f"{gets} and knows the key: {answer}"
                    yield text, _heard(gone, request, answer)
                    if request.worker != NEVER:
                        yield f"{text} (a copy travels on)", _heard(copied, request, answer)
                return
        for answer in self.answers:
            refund = Refund(*request[:2], answer, self.times.lag, self.times.memory or 0)
            text = f"{gets}: {answer}"
            made = gone._replace(refunds=(*gone.refunds, refund))
            yield text, _heard(made, request, answer)
            if refund.known:
                made = copied._replace(refunds=(*gone.refunds, refund))
                yield f"{text} (a copy travels on)", _heard(made, request, answer)
        for answer in self.refusals:
            yield f"{gets}: {answer}", _heard(gone, request, answer)

    def _events(self, state: State, refund: Refund) -> Steps:
        """Any event of the refund's life arrives, perhaps in the same second as the last one."""
        for says in HISTORY[refund.state]:
            number = EVENTS.index(says)
            for tied in (True, False):
                if (state.news == -1) if tied else (number <= state.news):
                    continue
                row, news = self._after_event(state.row, says, tied), max(number, state.news)
                if row is not state.row or news != state.news:
                    when = " in the same second" if tied else ""
                    yield f"event{when}: {says}", state._replace(row=row, news=news)

    def _after_event(self, row: Row, says: str, tied: bool) -> Row:
        if row.state == TaskState.SUCCEEDED and says == "failed":
            return self._looked(row) if tied else self._told(row, says)
        if row.state in TASK_FINAL:
            return row
        if says == "failed" or tied:
            return self._looked(row)
        return self._told(row, says)

    def _later(self, state: State) -> State:
        workers = tuple(
            worker
            if worker.claim is None
            else worker._replace(
                claim=worker.claim._replace(calls_left=max(worker.claim.calls_left - 1, 0))
            )
            for worker in state.workers
        )
        return state._replace(
            row=self._tick(state.row),
            workers=(workers[0], workers[1]),
            wire=tuple(r._replace(left=r.left - 1) for r in state.wire if r.left),
            refunds=tuple(
                r._replace(unseen=max(r.unseen - 1, 0), known=max(r.known - 1, 0))
                for r in state.refunds
            ),
        )

    def _settled(self, state: State) -> State:
        """The same state without what can have no effect any more."""
        if state.workers != _ALL_IDLE:
            leased = state.row.lease_left != NEVER
            one, two = (self._worth(w, leased, state.generation) for w in state.workers)
            if (one, two) != state.workers:
                state = state._replace(workers=(one, two))
        if state.wire:
            state = state._replace(wire=_worth_keeping(state))
        if len(state.refunds) > 1:
            state = state._replace(refunds=tuple(sorted(state.refunds)))
        return _without_the_past(state) if state.generation > 1 else state

    def _left_of(self, worker: Worker, leased: bool, generation: int) -> Worker:
        """The worker, or an idle one where it will neither call nor write."""
        if not leased:
            worker = _without_lease(worker)
        if worker.claim is None:
            return worker
        if worker.phase == "claimed":
            calls = worker.claim.calls_left or not self.rules.on(Rule.LEASE_CHECK)
            return worker if calls else IDLE
        writes = worker.claim.holds or not self.rules.on(Rule.LEASE_TOKEN)
        return worker if writes and worker.generation == generation else IDLE

    def harm(self, before: State, after: State) -> str:
        """What must never be the case, in words; empty when all is well."""
        if len(after.refunds) > 1 and sum(r.state == "paid" for r in after.refunds) > 1:
            return "paid twice"
        said = after.row.state == TaskState.DECLINED and _money_moves(after, after.generation)
        if said or (after.declined and _money_moves(after, 1)):
            return "said declined while money had moved or could still move"
        return "" if before.row is after.row else self._row_harm(before.row, after.row)


def _harm_to_row(before: Row, after: Row, rules: Rules) -> str:
    if after == Row():
        return ""
    if harm := rows.harm_to_row(before, after):
        return harm
    # With all rules on, the database never has to refuse a move.
    if rules == ALL_ON and not rows.follows_an_edge(before, after):
        return f"no edge leads from {before.state} to {after.state}"
    return ""


def _worth_keeping(state: State) -> tuple[Request, ...]:
    """The requests under way that can still make a refund, or whose answer somebody awaits."""
    requests = (
        r
        if r.worker == NEVER or state.workers[r.worker].phase == "waiting"
        else r._replace(worker=NEVER)
        for r in state.wire
    )
    return tuple(sorted(r for r in requests if r.worker != NEVER or _may_pay(state, r)))


def _money_moves(state: State, generation: int) -> bool:
    """Whether money of a generation has moved, or a request under way may still move it."""
    if any(r.generation == generation and r.state in ("paid", "pending") for r in state.refunds):
        return True
    return any(r.generation == generation and _may_pay(state, r) for r in state.wire)


def _may_pay(state: State, request: Request) -> bool:
    """Whether a request under way may make a refund: not while its key is sure to be known."""
    return not any(
        (refund.generation, refund.key) == request[:2] and refund.known > request.left
        for refund in state.refunds
    )


def _without_the_past(state: State) -> State:
    """Once nothing of the earlier generation is left, the later one is like the first."""
    if any(request.generation == 1 for request in state.wire) or any(
        worker.generation == 1 for worker in state.workers
    ):
        return state
    if any(r.generation == 1 and r.state in ("paid", "pending") for r in state.refunds):
        return state
    one, two = (w._replace(generation=1) if w.claim else w for w in state.workers)
    return state._replace(
        generation=1,
        declined=False,
        workers=(one, two),
        wire=tuple(r._replace(generation=1) for r in state.wire),
        refunds=tuple(r._replace(generation=1) for r in state.refunds if r.generation != 1),
    )


def _with_worker(state: State, i: int, worker: Worker) -> State:
    one, two = state.workers
    return state._replace(workers=(worker, two) if i == 0 else (one, worker))


def _with_refund(state: State, n: int, refund: Refund) -> State:
    return state._replace(refunds=(*state.refunds[:n], refund, *state.refunds[n + 1 :]))


def _heard(state: State, request: Request, answer: str) -> State:
    """The answer reaches the worker that waits for it, if any does."""
    if request.worker == NEVER:
        return state
    worker = state.workers[request.worker]
    return _with_worker(state, request.worker, worker._replace(phase="answered", answer=answer))


def _lease_taken(state: State, *, sent: bool) -> State:
    """The lease goes to another worker; after a new send, every earlier look-up lies before it."""
    one, two = (_without_lease(worker, sent=sent) for worker in state.workers)
    return state._replace(workers=(one, two))


def _without_lease(worker: Worker, *, sent: bool = False) -> Worker:
    if worker.claim is None:
        return worker
    asked_after = 0 if sent else worker.claim.asked_after
    return worker._replace(claim=worker.claim._replace(holds=False, asked_after=asked_after))
