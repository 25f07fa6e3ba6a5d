"""How a race is staged: who stops where, until what has happened. No sleeping, no luck."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from django.db import connection, models
from django.db.models import QuerySet

from returns import locking

Row = TypeVar("Row", bound=models.Model)
First = TypeVar("First")
Second = TypeVar("Second")
Result = TypeVar("Result")

# A step that has not happened by then will not happen.
PATIENCE_SECONDS = 20


def turn_locks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read as before, but nobody holds them."""

    def read(rows: QuerySet[Row]) -> list[Row]:
        return list(rows.order_by("pk"))

    monkeypatch.setattr(locking, "lock_rows", read)


def meet_after(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, people: int = 2) -> None:
    """Nobody gets past the end of this function until that many have come to it, once."""
    meeting, met = threading.Barrier(people), threading.Event()
    original = getattr(module, name)

    def stops(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not met.is_set():
            meeting.wait(PATIENCE_SECONDS)
            met.set()
        return result

    monkeypatch.setattr(module, name, stops)


class Pause:
    """The first one to come to the end of a function stops there until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        self._reached, self._go_on, self._taken = (threading.Event() for _ in range(3))
        original = getattr(module, name)

        def stops(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not self._taken.is_set():
                self._taken.set()
                self._reached.set()
                assert self._go_on.wait(PATIENCE_SECONDS), "nobody let the first one go on"
            return result

        monkeypatch.setattr(module, name, stops)

    def first_then_second(
        self, first: Callable[[], First], second: Callable[[], Second]
    ) -> tuple[First | Exception, Second | Exception]:
        """Start the second while the first stands still; go on once the second waits for a lock."""
        with ThreadPoolExecutor(max_workers=2) as pool:
            earlier = pool.submit(alone, first)
            assert self._reached.wait(PATIENCE_SECONDS), "never stopped"
            later = pool.submit(alone, second)
            until(lambda: later.done() or somebody_waits_for_a_lock())
            assert not later.done(), "did not wait"
            self._go_on.set()
            return result_of(earlier), result_of(later)


def alone(call: Callable[[], Result]) -> Result:
    """In a thread: the call, with a connection of its own that is closed after it."""
    try:
        return call()
    finally:
        connection.close()


def result_of(future: Future[Result]) -> Result | Exception:
    """What the call returned, or what it raised."""
    try:
        return future.result(PATIENCE_SECONDS)
    except Exception as error:  # noqa: BLE001 - the test says which errors are right
        return error


@contextmanager
def another_transaction() -> Iterator[Callable[[str], None]]:
    """Somebody else's open transaction, statement by statement; committed at the end."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            yield cursor.execute
            cursor.execute("COMMIT")
    finally:
        other.close()


def somebody_waits_for_a_lock() -> bool:
    """Whether a connection to this database waits for a row or an index entry of another one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        (waiting,) = cursor.fetchone()
    return bool(waiting)


def until(fact: Callable[[], bool]) -> None:
    """Poll for a fact."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
