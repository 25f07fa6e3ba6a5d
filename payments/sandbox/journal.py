"""Durable storage: one append-only file of JSON lines.

One line is one effect with everything that must be true together (a refund and the answer saved
under its idempotency key, say). The line is on the disk before the effect is visible, so a
`kill -9` at any moment leaves either all of an effect or nothing of it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]
Change = tuple[str, JsonObject]


class JournalBusyError(Exception):
    """Another process has this journal open."""


class JournalDamagedError(Exception):
    """A complete line cannot be read."""


class Journal:
    def __init__(self, path: Path) -> None:
        """Open or create the journal; raises JournalBusyError while another process has it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            raise JournalBusyError(f"{path} is in use by another process") from busy
        self._cut_torn_tail()

    def _cut_torn_tail(self) -> None:
        """A kill in the middle of a write leaves part of a line: an effect nobody ever saw."""
        self._file.seek(0)
        content = self._file.read()
        self._file.truncate(content.rfind(b"\n") + 1)

    def replay(self) -> Iterator[Change]:
        """Every change ever appended, in order; raises JournalDamagedError."""
        self._file.seek(0)
        for number, line in enumerate(self._file, start=1):
            try:
                changes = json.loads(line)
            except ValueError as damage:
                raise JournalDamagedError(f"{self._path}, line {number}: {damage}") from damage
            yield from changes

    def append(self, changes: Sequence[Change], *, durable: bool = True) -> None:
        """Write the changes as one line; `durable` waits until the disk has it."""
        self._file.write(json.dumps(changes, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())

    def clear(self) -> None:
        self._file.truncate(0)
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
