"""Whether a trace is a way through the model: every state it may be in is kept, step by step.

The steps are the model's own. Those that leave nothing in the database (a request travels, an
answer is heard, a worker dies) may come at any time between two that do; time may not, for it is
recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

from returns.states import TaskState
from tests.model import books, payment, rows
from tests.traces.seen import Seen, seen

CLAIM, RECORD, EVENT = "claim", "record", "event"
SET_ASIDE, ASKS_AGAIN, TIME = "set aside", "a person asks again", "time passes"
HIDDEN = ""

_WORDS = {
    CLAIM: re.compile(r"worker \d claims it to (?P<what>\w+)"),
    RECORD: re.compile(r"worker \d records: (?P<what>.+)"),
    SET_ASIDE: re.compile(r"worker \d sets it aside(?P<what>)"),
    EVENT: re.compile(r"event(?: in the same second)?: (?P<what>\w+)"),
    ASKS_AGAIN: re.compile(r"a person (?:asks|tries) again(?P<what>)"),
    TIME: re.compile(r"time passes(?P<what>)"),
    # A person's decision is not among what is recorded; another round of paying is another trace.
    "elsewhere": re.compile(r"(?P<what>a person declares it unpaid|released and .+)"),
}
# The model leaves out what would change nothing; it may happen all the same.
_MAY_CHANGE_NOTHING = frozenset({EVENT, ASKS_AGAIN})


class Step(NamedTuple):
    """One step as it was recorded, and what the row showed after it.

    `lease` is the worker's, for a claim and a record. What `shows` does not name is not compared.
    """

    kind: str
    what: str = ""
    lease: int = 0
    shows: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        words = " ".join(filter(None, [self.kind, self.what]))
        lease = f" (lease {self.lease})" if self.lease else ""
        return f"{words}{lease} -> {', '.join(f'{name}={value}' for name, value in self.shows)}"


class World(Protocol):
    """One of the worlds of `tests.model`; its states have a row."""

    def steps(self, state: Any) -> Iterator[tuple[str, Any]]: ...


class Move(NamedTuple):
    """A step of the model, told apart by what a trace would say of it."""

    kind: str
    what: str
    after: Any


@dataclass
class Place:
    """Where a trace has led: every state the model may be in, and the lease of the last claim."""

    states: frozenset[Any]
    lease: int = 0
    ways: dict[Step, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """The first step that the model cannot take, and what it might have shown before."""

    trace: Sequence[Step]
    at: int
    before: frozenset[Seen]

    def __str__(self) -> str:
        lines = [f"{'>>' if n == self.at else '  '} {step}" for n, step in enumerate(self.trace)]
        shown = sorted(map(str, self.before))
        return "\n".join(
            ["not a trace of the model:", *lines, "before it the model showed", *shown]
        )


class Checker:
    """Follows traces from one start; those that begin alike are followed once."""

    def __init__(self, world: World, start: Any, protocol: rows.Protocol) -> None:
        self._moves = cache(lambda state: tuple(_read(world.steps(state))))
        self._shows = cache(lambda row: _shown(row, protocol))
        self._start = Place(frozenset({start}))
        self.visited = {start}

    def follow(self, trace: Sequence[Step]) -> Failure | None:
        """None when the model can take every step; else the first it cannot."""
        place = self._start
        for at, step in enumerate(trace):
            if step not in place.ways:
                place.ways[step] = self._after(place, step)
            before, place = place, place.ways[step]
            if not place.states:
                shown = frozenset(self._shows(state.row) for state in before.states)
                return Failure(trace, at, shown)
        return None

    def _after(self, place: Place, step: Step) -> Place:
        if step.kind == RECORD and step.lease != place.lease:
            # Only the worker of the latest claim can hold the lease; see the model's `Claim.holds`.
            return Place(frozenset())
        found = {
            after
            for state in self._whatever_is_hidden(place.states)
            for after in self._taken(state, step)
            if _fits(self._shows(after.row), step)
        }
        self.visited |= found
        return Place(frozenset(found), step.lease if step.kind == CLAIM else place.lease)

    def _taken(self, state: Any, step: Step) -> Iterable[Any]:
        wanted = (step.kind, step.what)
        if wanted == (RECORD, "deferred") and state.row.state != TaskState.SENDING:
            # The model has no look-up that is to come again later; one without an answer is alike.
            wanted = (RECORD, "unknown")
        for move in self._moves(state):
            if (move.kind, move.what) == wanted:
                yield move.after
        if step.kind in _MAY_CHANGE_NOTHING:
            yield state

    def _whatever_is_hidden(self, states: frozenset[Any]) -> set[Any]:
        """These states and all that steps without a record lead to."""
        reached, todo = set(states), list(states)
        while todo:
            for move in self._moves(todo.pop()):
                if move.kind == HIDDEN and move.after not in reached:
                    reached.add(move.after)
                    todo.append(move.after)
        self.visited |= reached
        return reached


def payment_checker() -> Checker:
    """Of payments at a provider that remembers keys, as Stripe does."""
    times = payment.WITH_KEYS
    return Checker(payment.World(times), payment.State(), rows.Protocol(times, times.declared()))


def posting_checker(*, unique: bool) -> Checker:
    """Of credits in an ERP that holds our reference unique, or does not."""
    world = books.World(unique=unique)
    return Checker(world, world.start, rows.Protocol(books.TIMES, books.DRAFTS))


def _read(steps: Iterable[tuple[str, Any]]) -> Iterable[Move]:
    for text, after in steps:
        kind, what = _kind(text)
        yield Move(kind, what, after)


@cache
def _kind(text: str) -> tuple[str, str]:
    for kind, pattern in _WORDS.items():
        if match := pattern.fullmatch(text):
            what = match["what"]
            if kind == RECORD and what in payment.OUTCOMES:
                what = type(payment.OUTCOMES[what]).__name__.lower()
            return kind, what
    return HIDDEN, ""


def _shown(row: rows.Row, protocol: rows.Protocol) -> Seen:
    facts = rows.facts(row, protocol.times)
    has_word = row.state == TaskState.STUCK and row.has_word
    return seen(facts, protocol.capabilities, protocol.times.timing, has_word=has_word)


def _fits(shown: Seen, step: Step) -> bool:
    return all(getattr(shown, name) == value for name, value in step.shows)
