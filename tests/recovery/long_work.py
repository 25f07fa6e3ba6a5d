"""Long work of the books that stands still where a test can kill it."""

from __future__ import annotations

import signal
from datetime import date
from pathlib import Path

from django.contrib.auth.models import User

from reconciliation.runs import reconcile
from reconciliation.statement_import import import_file


def reconcile_and_stand_still(day: str) -> None:
    """A run that has begun and does not come to comparing."""
    only = date.fromisoformat(day)
    reconcile(first=only, last=only, by=None, collect=lambda *_: signal.pause())


def import_and_stand_still(path: str, rows: int, marker: str) -> None:
    """An import that stops for ever once it has read so many rows; it says so by a file."""

    def progress(read: int) -> None:
        if read >= rows:
            Path(marker).touch()
            signal.pause()

    by = User.objects.get(username="finance")
    with Path(path).open("rb") as file:
        import_file(file=file, name="big", source="sandbox", by=by, progress=progress)
