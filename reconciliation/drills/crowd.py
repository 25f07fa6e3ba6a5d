"""Several processes that call the API at the same moment.

Each member of the crowd is a process with a connection of its own; a barrier lets the requests of
one round leave together.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import httpx

from reconciliation.drills.place import DrillError

# A member that does not come to the barrier in this time is dead.
ROUND_SECONDS = 60
ANSWER_SECONDS = 30
# Shorter than the server keeps an idle connection: one that it is just closing answers nothing.
IDLE_SECONDS = 30
# Rounds that are handed to the crowd at once; between two portions there is news of the progress.
PORTION = 20
SERVER_ERRORS = range(500, 600)


@dataclass(frozen=True)
class Call:
    """One request to the API, with the token it is made with."""

    method: str
    path: str
    token: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """What came back; status 0 when nothing did."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status in (200, 201)


# Never larger than the crowd; who has no call only keeps the others company at the barrier.
Group = Sequence[Call]
Progress = Callable[[int, int], None]


def quietly(done: int, whole: int) -> None:
    """No progress is told."""


class Crowd:
    """`size` processes that wait for work; a context manager that ends them."""

    def __init__(self, web: str, size: int) -> None:
        self.size = size
        # Every answer there ever was, by status.
        self.statuses: Counter[int] = Counter()
        context = multiprocessing.get_context("spawn")
        # Held here: its semaphores live as long as this object, and members come to it later.
        self._barrier = context.Barrier(size)
        self._members: list[tuple[Any, Connection]] = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_member, args=(web, theirs, self._barrier), daemon=True
            )
            process.start()
            theirs.close()
            self._members.append((process, ours))

    def __enter__(self) -> Crowd:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _, pipe in self._members:
            pipe.close()
        for process, _ in self._members:
            process.join(timeout=ANSWER_SECONDS)
            if process.is_alive():
                process.kill()

    @property
    def server_errors(self) -> int:
        """Answers that say that the server failed, and calls without any answer."""
        return sum(n for status, n in self.statuses.items() if status in (0, *SERVER_ERRORS))

    def together(self, groups: Sequence[Group], progress: Progress = quietly) -> list[list[Answer]]:
        """The calls of each group at the same moment, each by another process.

        As many groups share a round as there are processes for; answers come group by group.
        """
        answers: list[list[Answer]] = []
        a_round = max(1, self.size // max(map(len, groups)))
        for portion in _portions(groups, PORTION * a_round):
            rounds = [
                [call for group in together for call in group]
                for together in _portions(portion, a_round)
            ]
            shares = [
                [one[member] if member < len(one) else None for one in rounds]
                for member in range(self.size)
            ]
            by_round = zip(*self._answers(shares, at_once=True), strict=True)
            flat = (answer for one in by_round for answer in one if answer is not None)
            answers += [list(islice(flat, len(group))) for group in portion]
            progress(len(answers), len(groups))
        return answers

    def spread(self, calls: Sequence[Call], progress: Progress = quietly) -> list[Answer]:
        """All calls, shared out among the processes; answers in the order of the calls."""
        answers: list[Answer] = []
        for portion in _portions(calls, PORTION * self.size):
            found: list[Answer | None] = [None] * len(portion)
            shares: list[list[Call | None]] = [
                list(portion[member :: self.size]) for member in range(self.size)
            ]
            for member, answered in enumerate(self._answers(shares, at_once=False)):
                found[member :: self.size] = answered
            answers += [answer for answer in found if answer is not None]
            progress(len(answers), len(calls))
        return answers

    def _answers(
        self, shares: list[list[Call | None]], *, at_once: bool
    ) -> list[list[Answer | None]]:
        for (_, pipe), share in zip(self._members, shares, strict=True):
            pipe.send((at_once, share))
        try:
            answered: list[list[Answer | None]] = [pipe.recv() for _, pipe in self._members]
        except (EOFError, ConnectionError) as error:
            raise DrillError("A client process of the drill has died.") from error
        self.statuses.update(answer.status for share in answered for answer in share if answer)
        return answered


def _portions(whole: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


def _member(web: str, pipe: Connection, barrier: threading.Barrier) -> None:
    """The life of one process: calls as they are told, until the pipe is closed."""
    # Ctrl-C reaches everyone; the process that leads the drill ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limits = httpx.Limits(keepalive_expiry=IDLE_SECONDS)
    with httpx.Client(base_url=web, timeout=ANSWER_SECONDS, limits=limits, trust_env=False) as http:
        while True:
            try:
                at_once, share = pipe.recv()
            except EOFError:
                return
            answers = []
            for call in share:
                if at_once:
                    barrier.wait(ROUND_SECONDS)
                answers.append(_answer(http, call) if call else None)
            pipe.send(answers)


def _answer(http: httpx.Client, call: Call) -> Answer:
    headers = {"Authorization": f"Token {call.token}"}
    try:
        response = http.request(call.method, call.path, headers=headers, json=call.body)
    except httpx.HTTPError as error:
        return Answer(0, {"detail": repr(error)})
    try:
        body = response.json()
    except ValueError:
        body = None
    return Answer(response.status_code, body if isinstance(body, dict) else {})
