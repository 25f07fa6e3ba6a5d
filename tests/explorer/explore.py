"""Depth first over all choices of who goes on, each run from a fresh beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from config.fail_points import arm
from tests.explorer.actors import Actor, Player, Stage, turn

# What a run begins with: an empty world is filled, and the actors that will act in it returned.
Begin = Callable[[], Sequence[Actor]]
# What must be true at its end; told the players, whose errors it judges.
Check = Callable[[Sequence[Player]], None]


class WrongEnd(AssertionError):
    """An interleaving that ends wrong; `schedule` replays it."""

    def __init__(self, schedule: str, steps: Sequence[str], why: BaseException) -> None:
        super().__init__(f"schedule {schedule!r} ends wrong: {why!r}\n  " + "\n  ".join(steps))
        self.schedule = schedule


@dataclass
class Choice:
    """Who could go on, and which of them does."""

    able: tuple[str, ...]
    taken: int = 0

    @property
    def name(self) -> str:
        return self.able[self.taken]

    @property
    def is_last(self) -> bool:
        return self.taken + 1 == len(self.able)


@contextmanager
def stopping_at(points: Sequence[str]) -> Iterator[None]:
    """Actors stop at these fail points."""
    with ExitStack() as armed:
        for point in points:
            armed.callback(arm(point, partial(turn, point)))
        yield


def explore(begin: Begin, check: Check) -> int:
    """Run every interleaving; returns how many there are. Raises WrongEnd at the first bad one."""
    choices: list[Choice] = []
    runs = 0
    while True:
        _run(begin, check, choices)
        runs += 1
        while choices and choices[-1].is_last:
            choices.pop()
        if not choices:
            return runs
        choices[-1].taken += 1


def replay(begin: Begin, check: Check, schedule: str) -> None:
    """Run one interleaving again, as it was printed."""
    _run(begin, check, [Choice((name,)) for name in schedule.split()], replayed=True)


def _run(begin: Begin, check: Check, choices: list[Choice], *, replayed: bool = False) -> None:
    """Follow the choices, and then the first way on to the end; what was chosen is added."""
    stage, steps = Stage(begin()), list[str]()
    try:
        stage.settle()
        for number, able in enumerate(_ways(stage)):
            if number == len(choices):
                choices.append(Choice(tuple(able)))
            choice = choices[number]
            known = choice.name in able if replayed else choice.able == tuple(able)
            assert known, f"not the same again: {choice.able} before, now {tuple(able)}: {steps}"
            player = able[choice.name]
            steps.append(f"{player.name} from {player.at}")
            player.go_on()
            stage.settle()
    finally:
        stage.close()
    try:
        check(stage.players)
    except Exception as error:
        schedule = " ".join(choice.name for choice in choices)
        raise WrongEnd(schedule, steps, error) from error


def _ways(stage: Stage) -> Iterator[dict[str, Player]]:
    """Who can go on, as long as anybody can."""
    while able := {player.name: player for player in stage.who_can()}:
        yield able
