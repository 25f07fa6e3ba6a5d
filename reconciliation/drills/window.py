"""The demo's database as an onlooker sees it; while it is away, the onlooker waits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, LiteralString

import psycopg

from reconciliation.drills.place import DrillError

PATIENCE_SECONDS = 60
POLL_SECONDS = 0.5


class Window:
    """Read-only questions; a context manager. One thread may use it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def __enter__(self) -> Window:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def rows(self, question: LiteralString, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer's rows. Raises DrillError when the database stays away."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self._url, autocommit=True)
                    self._connection.read_only = True
                return self._connection.execute(question, values).fetchall()
            except psycopg.OperationalError as error:
                self._close()
                if time.monotonic() > deadline:
                    raise DrillError(f"The database does not answer: {error}") from error
                time.sleep(POLL_SECONDS)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
