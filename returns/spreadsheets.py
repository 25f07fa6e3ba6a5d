"""Lists for spreadsheets: CSV line by line, and no cell that a sheet would carry out. Pure."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

# A text that begins so is taken for a formula, which may send the sheet's contents anywhere.
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Echo:
    """A file that gives back what is written to it."""

    def write(self, text: str) -> str:
        return text


def lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The rows as lines of CSV, one at a time, so that a long list needs no memory."""
    writer = csv.writer(_Echo())
    for row in rows:
        yield writer.writerow([cell(value) for value in row])


def cell(value: object) -> object:
    """A cell that stays text: what looks like a formula gets a quote. Our own numbers stay."""
    if value is None:
        return ""
    if isinstance(value, int | Decimal):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text
