"""The product's own format: the order bodies of the API, each with its number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from returns.importing.reading import CANONICAL, Broken, Entry, entries
from returns.importing.rows import Row


def rows(path: Path) -> Iterator[Row | Broken]:
    """Every order of a file. Raises NotReadable."""
    for entry in entries(path, CANONICAL):
        yield entry if isinstance(entry, Broken) else _row(entry)


def _row(entry: Entry) -> Row | Broken:
    if not isinstance(entry.document, dict):
        return Broken(entry.place, "It is not a JSON object.")
    body = {name: value for name, value in entry.document.items() if name != "number"}
    number = entry.document.get("number", entry.key)
    if not isinstance(number, str) or not number:
        return Broken(entry.place, "It has no number.")
    if entry.key and number != entry.key:
        return Broken(entry.place, f"It stands under {entry.key} and calls itself {number}.")
    return Row(entry.place, number, body)
