"""What the searches show: that the rules hold, that each is needed, and what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tests.model import books, payment
from tests.model.payment import WITH_KEYS, WITHOUT_KEYS
from tests.model.rules import Rule, Rules
from tests.model.search import Found, dead_ends, search

PROVIDERS = {"remembers keys": WITH_KEYS, "knows no keys": WITHOUT_KEYS}
ERPS = {"unique reference": True, "any number of entries": False}

# Where harm is looked for, shorter times do: it is found sooner.
SHORTER = {WITHOUT_KEYS: replace(WITHOUT_KEYS, travel=2, lag=1)}

# Some rules say nothing to a provider that lacks what they are about.
SILENT = {
    (Rule.SAME_KEY, "knows no keys"),
    (Rule.WINDOW, "knows no keys"),
    (Rule.QUIET_WITHOUT_KEYS, "remembers keys"),
}

# What a provider declares, and how much worse it may not be: ticks in which the model finds harm.
BROKEN_PROMISES: dict[str, dict[str, Any]] = {
    "keys are forgotten early": {"memory": 3},
    "requests travel longer": {"travel": 6},
    "look-ups lag longer": {"lag": 6},
}


@dataclass(frozen=True)
class Line:
    """One line of a table: what was changed, for whom, and what the search found.

    Without states nothing was searched: the rule says nothing to this counterpart.
    """

    subject: str
    counterpart: str
    states: int = 0
    steps: int = 0
    interleavings: int = 0
    harm: str = ""
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.states:
            verdict = "says nothing here"
        elif self.harm:
            verdict = f"{self.harm}, in {len(self.path)} steps" if self.path else self.harm
        else:
            verdict = (
                f"no harm in {self.states:,} states, {self.steps:,} steps, "
                f"{self.interleavings:,} interleavings"
            )
        return f"{self.subject:<60}  {self.counterpart:<22}  {verdict}"


@cache
def payment_holds() -> list[Line]:
    """The payment protocol as it stands, against each kind of provider."""
    return [
        _payments("all rules on", name, payment.World(times)) for name, times in PROVIDERS.items()
    ]


@cache
def payment_rules() -> list[Line]:
    """Each rule switched off alone. The provider is a prompt one: harm is found sooner."""
    return [
        Line(rule.value, name)
        if (rule, name) in SILENT
        else _payments(
            rule.value,
            name,
            payment.World(SHORTER.get(times, times), Rules(rule), prompt=True),
        )
        for rule in Rule
        for name, times in PROVIDERS.items()
    ]


@cache
def broken_promises() -> list[Line]:
    """What the rules rest on: the provider is worse than it declares."""
    return [
        _payments(
            promise,
            name,
            payment.World(times, actual=replace(times, **worse), prompt=True),
        )
        for promise, worse in BROKEN_PROMISES.items()
        for name, times in PROVIDERS.items()
        if times.memory is not None or "memory" not in worse
    ]


@cache
def books_hold() -> list[Line]:
    """The posting of credits as it stands, against both kinds of ERP."""
    return [
        _books("all rules on", name, books.World(unique=unique)) for name, unique in ERPS.items()
    ]


@cache
def books_rules() -> list[Line]:
    """Each rule of the books switched off alone. Two entries are enough for harm."""
    return [
        _books(rule.value, name, books.World(unique=unique, off=rule, numbers=2))
        for rule in books.ErpRule
        for name, unique in ERPS.items()
    ]


def _payments(subject: str, counterpart: str, world: payment.World) -> Line:
    found = search(payment.State(), world.steps, world.harm)
    return _line(subject, counterpart, found)


def _books(subject: str, counterpart: str, world: books.World) -> Line:
    found = search(world.start, world.steps, world.harm)
    line = _line(subject, counterpart, found)
    if found.harm or not (never := len(dead_ends(found, books.is_done))):
        return line
    return replace(line, harm=f"never posted, from {never:,} of {line.states:,} states")


def _line(subject: str, counterpart: str, found: Found[Any]) -> Line:
    """What was found, without the states themselves."""
    return Line(
        subject,
        counterpart,
        len(found.states),
        found.steps,
        found.interleavings,
        found.harm,
        tuple(found.path),
    )


Table = Callable[[], list[Line]]
TABLES: dict[str, Table] = {
    "Payments: never twice, never declined while money may move, no success forgotten, "
    "no row without a next look": payment_holds,
    "Payments, one rule switched off": payment_rules,
    "Payments, a provider that breaks a promise": broken_promises,
    "Books: at most one posted credit, and always a way to one": books_hold,
    "Books, one rule switched off": books_rules,
}


def story(line: Line) -> list[str]:
    """The shortest way to the harm of a line; nothing where there is none."""
    if not line.path:
        return []
    steps = [f"   {number:>2}. {step}" for number, step in enumerate(line.path, 1)]
    return [f"-- {line.subject} / {line.counterpart}: {line.harm}", *steps]


def lines() -> Iterator[str]:
    """Everything as text, as it is found."""
    for title, table in TABLES.items():
        yield f"== {title}"
        found = table()
        yield from map(str, found)
        for line in found:
            yield from story(line)
        yield ""
