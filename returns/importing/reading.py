"""A JSON file as its entries: an array, an object keyed by number, one order, or JSON lines.

JSON lines are read one at a time, so memory does not grow with the file; the other shapes are one
document and are read whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

# The formats, each with the fields by which its orders are known.
CANONICAL, TAU_RETAIL = "canonical", "tau-retail"
_MARKS = {CANONICAL: {"lines", "tenders"}, TAU_RETAIL: {"order_id", "payment_history"}}
_LINES_SUFFIXES = (".jsonl", ".ndjson")
# A field that is given twice gets this behind its name; no reader knows such a field.
_TWICE = " (given twice)"


class NotReadable(ValueError):
    """The file as a whole cannot be read; the text says why."""


@dataclass(frozen=True)
class Entry:
    """One order as it stands in a file; `key` is what the file itself calls it."""

    place: str
    key: str
    document: object


@dataclass(frozen=True)
class Broken:
    """A place in a file that cannot be read."""

    place: str
    reason: str


def entries(path: Path, file_format: str) -> Iterator[Entry | Broken]:
    """Every order of a file, in its order.

    Raises NotReadable, also when the first order shows that the file is of another format.
    """
    try:
        with path.open("rb") as file:
            found = _lines(file) if _is_lines(path, file) else _of_document(_document(file.read()))
            for number, entry in enumerate(found):
                if number == 0 and isinstance(entry, Entry):
                    _refuse_another_format(entry.document, file_format)
                yield entry
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror}.") from error


def keyed_objects(path: Path) -> dict[str, dict[str, Any]]:
    """A file that is one object of objects, whole. Raises NotReadable."""
    try:
        document = _document(path.read_bytes())
    except OSError as error:
        raise NotReadable(f"{path}: {error.strerror}.") from error
    if not isinstance(document, dict) or not all(isinstance(v, dict) for v in document.values()):
        raise NotReadable(f"{path} is not a JSON object of objects.")
    return document


def _refuse_another_format(document: object, file_format: str) -> None:
    fields = document.keys() if isinstance(document, dict) else set()
    for other, marks in _MARKS.items():
        if other != file_format and marks <= fields:
            raise NotReadable(f"These look like {other} orders: use --format {other}.")


def _is_lines(path: Path, file: BinaryIO) -> bool:
    """By the name, or because the first line is a whole order; leaves the file at its start."""
    if path.suffix in _LINES_SUFFIXES:
        return True
    first = next((line for line in file if line.strip()), b"")
    more = bool(file.read(1))
    file.seek(0)
    try:
        return more and _is_order(_parsed(first))
    except ValueError:
        return False


def _lines(file: BinaryIO) -> Iterator[Entry | Broken]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            yield Entry(f"line {number}", "", _parsed(line))
        except ValueError as error:
            yield Broken(f"line {number}", str(error))


def _document(content: bytes) -> object:
    try:
        return _parsed(content)
    except ValueError as error:
        raise NotReadable(str(error)) from error


def _of_document(document: object) -> Iterator[Entry]:
    match document:
        case list():
            for number, order in enumerate(document, start=1):
                yield Entry(f"entry {number}", "", order)
        case dict() if _is_order(document):
            yield Entry("entry 1", "", document)
        case dict():
            for key, order in document.items():
                yield Entry(key, key, order)
        case _:
            raise NotReadable("The file is neither a JSON array nor a JSON object.")


def _is_order(document: object) -> bool:
    """Whether this is one order; otherwise an object holds orders by their numbers."""
    return isinstance(document, dict) and isinstance(document.get("number"), str)


def _parsed(content: bytes) -> object:
    """Decimal for numbers with a point, so that no amount ever passes through a float."""
    try:
        return json.loads(
            content.decode("utf-8-sig"), parse_float=Decimal, object_pairs_hook=_fields
        )
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"It is not JSON in UTF-8: {error}.") from error


def _fields(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The fields of an object; a second value under the same name never replaces the first."""
    fields: dict[str, object] = {}
    for name, value in pairs:
        fields[name if name not in fields else name + _TWICE] = value
    return fields
