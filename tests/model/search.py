"""Breadth-first search over every state that can be reached, and the shortest way to any harm."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
START = -1


@dataclass
class Found(Generic[S]):
    """What a search saw: the states in the order they were met, and the first harm with its way.

    `interleavings` counts the orders of steps that lead to some state without a detour.
    """

    states: list[S]
    harm: str = ""
    path: list[str] = field(default_factory=list)
    interleavings: int = 0
    # Every step taken, as two columns: the state it led from and the one it led to.
    sources: array[int] = field(default_factory=lambda: array("l"))
    targets: array[int] = field(default_factory=lambda: array("l"))

    @property
    def steps(self) -> int:
        """How many steps were tried."""
        return len(self.sources)


def search(
    start: S,
    steps: Callable[[S], Iterator[tuple[str, S]]],
    harm: Callable[[S, S], str],
) -> Found[S]:
    """Visit every reachable state; stop at the first harm, which is then the nearest."""
    collects = gc.isenabled()
    # Millions of tuples and not one cycle among them: looking for some costs a quarter more time.
    gc.disable()
    try:
        return _search(start, steps, harm)
    finally:
        if collects:
            gc.enable()


def _search(
    start: S,
    steps: Callable[[S], Iterator[tuple[str, S]]],
    harm: Callable[[S, S], str],
) -> Found[S]:
    found = Found([start])
    numbers, came, depth, ways = {start: 0}, [(START, "")], [0], [1]
    # The list grows while it is walked: that is the queue.
    for number, state in enumerate(found.states):
        for text, after in steps(state):
            target = numbers.setdefault(after, len(came))
            if target == len(came):
                found.states.append(after)
                came.append((number, text))
                depth.append(depth[number] + 1)
                ways.append(0)
            if depth[target] == depth[number] + 1:
                ways[target] += ways[number]
            found.sources.append(number)
            found.targets.append(target)
            if word := harm(state, after):
                found.harm, found.path = word, [*_way(came, number), text]
                break
        if found.harm:
            break
    found.interleavings = sum(ways)
    return found


def _way(came: list[tuple[int, str]], number: int) -> list[str]:
    path = []
    while number > 0:
        number, text = came[number]
        path.append(text)
    return path[::-1]


def dead_ends(found: Found[S], is_goal: Callable[[S], bool]) -> list[S]:
    """The states from which no way leads to a goal."""
    before: list[list[int]] = [[] for _ in found.states]
    for source, target in zip(found.sources, found.targets, strict=True):
        before[target].append(source)
    todo = [number for number, state in enumerate(found.states) if is_goal(state)]
    reached = bytearray(len(found.states))
    while todo:
        number = todo.pop()
        if not reached[number]:
            reached[number] = True
            todo += before[number]
    return [state for state, alive in zip(found.states, reached, strict=True) if not alive]
