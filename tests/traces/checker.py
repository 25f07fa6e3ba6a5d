"""Whether a trace is a way through the model: every state it may be in is kept, step by step.

The steps are the model's own. Those that leave nothing in the database (a request travels, an
answer is heard, a worker dies) may come at any time between two that do; time may not, for it is
recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from returns.states import TaskState
from tests.model import rows
from tests.model.payment import OUTCOMES, WITH_KEYS, State, World
from tests.traces.seen import Seen, seen

CLAIM, RECORD, EVENT = "claim", "record", "event"
SET_ASIDE, ASKS_AGAIN, TIME = "set aside", "a person asks again", "time passes"
HIDDEN = ""

_WORDS = {
    CLAIM: re.compile(r"worker \d claims it to (?P<what>\w+)"),
    RECORD: re.compile(r"worker \d records: (?P<what>.+)"),
    SET_ASIDE: re.compile(r"worker \d sets it aside(?P<what>)"),
    EVENT: re.compile(r"event(?: in the same second)?: (?P<what>\w+)"),
    ASKS_AGAIN: re.compile(r"a person asks again(?P<what>)"),
    TIME: re.compile(r"time passes(?P<what>)"),
    # A person's decision and another round of paying have traces of their own.
    "not recorded": re.compile(r"(?P<what>a person declares it unpaid|released and .+)"),
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


class Move(NamedTuple):
    """A step of the model, told apart by what a trace would say of it."""

    kind: str
    what: str
    after: State


@dataclass
class Place:
    """Where a trace has led: every state the model may be in, and the lease of the last claim."""

    states: frozenset[State]
    lease: int = 0
    ways: dict[Step, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """The first step that the model cannot take, and the states it might have been in before."""

    trace: Sequence[Step]
    at: int
    before: frozenset[State]

    def __str__(self) -> str:
        lines = [f"{'>>' if n == self.at else '  '} {step}" for n, step in enumerate(self.trace)]
        shown = sorted({str(_shows(state.row)) for state in self.before})
        return "\n".join(
            ["not a trace of the model:", *lines, "before it the model showed", *shown]
        )


class Checker:
    """Follows traces from one start; those that begin alike are followed once."""

    def __init__(self, world: World) -> None:
        self._moves = cache(lambda state: tuple(_read(world.steps(state))))
        self._start = Place(frozenset({State()}))
        self.visited: set[State] = {State()}

    def follow(self, trace: Sequence[Step]) -> Failure | None:
        """None when the model can take every step; else the first it cannot."""
        place = self._start
        for at, step in enumerate(trace):
            if step not in place.ways:
                place.ways[step] = self._after(place, step)
            before, place = place, place.ways[step]
            if not place.states:
                return Failure(trace, at, before.states)
        return None

    def _after(self, place: Place, step: Step) -> Place:
        if step.kind == RECORD and step.lease != place.lease:
            # Only the worker of the latest claim can hold the lease; see `Claim.holds`.
            return Place(frozenset())
        found = {
            after
            for state in self._whatever_is_hidden(place.states)
            for after in self._taken(state, step)
            if _fits(_shows(after.row), step)
        }
        self.visited |= found
        return Place(frozenset(found), step.lease if step.kind == CLAIM else place.lease)

    def _taken(self, state: State, step: Step) -> Iterable[State]:
        wanted = (step.kind, step.what)
        if wanted == (RECORD, "deferred") and state.row.state != TaskState.SENDING:
            # The model has no look-up that is to come again later; one without an answer is alike.
            wanted = (RECORD, "unknown")
        for move in self._moves(state):
            if (move.kind, move.what) == wanted:
                yield move.after
        if step.kind in _MAY_CHANGE_NOTHING:
            yield state

    def _whatever_is_hidden(self, states: frozenset[State]) -> set[State]:
        """These states and all that steps without a record lead to."""
        reached, todo = set(states), list(states)
        while todo:
            for move in self._moves(todo.pop()):
                if move.kind == HIDDEN and move.after not in reached:
                    reached.add(move.after)
                    todo.append(move.after)
        self.visited |= reached
        return reached


def _read(steps: Iterable[tuple[str, State]]) -> Iterable[Move]:
    for text, after in steps:
        kind, what = _kind(text)
        yield Move(kind, what, after)


@cache
def _kind(text: str) -> tuple[str, str]:
    for kind, pattern in _WORDS.items():
        if match := pattern.fullmatch(text):
            what = match["what"]
            return kind, type(OUTCOMES[what]).__name__.lower() if kind == RECORD else what
    return HIDDEN, ""


@cache
def _shows(row: rows.Row) -> Seen:
    facts = rows.facts(row, WITH_KEYS)
    has_word = row.state == TaskState.STUCK and row.has_word
    return seen(facts, WITH_KEYS.declared(), WITH_KEYS.timing, has_word=has_word)


def _fits(shown: Seen, step: Step) -> bool:
    return all(getattr(shown, name) == value for name, value in step.shows)
