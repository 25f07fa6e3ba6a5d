"""Credit entries: what is accepted as one, and the book they stand in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

from payments.sandbox.currencies import decimals
from payments.sandbox.journal import Change, JsonObject

EntryState = Literal["draft", "posted"]

REQUIRED = ("reference", "amount", "currency", "refunded_on", "order")
OPTIONAL = ("description",)
_MAX_TEXT_LENGTH = 200


class EntryRefused(Exception):
    """A field that cannot be accepted."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.field = name


@dataclass(frozen=True)
class Entry:
    """One credit entry. `amount` is text in major units with the currency's own decimals; `date`
    is the posting date, None while it is a draft."""

    id: int
    reference: str
    amount: str
    currency: str
    refunded_on: str
    order: str
    description: str
    state: EntryState
    created_at: str
    posted_at: str | None = None
    date: str | None = None

    @property
    def day(self) -> str:
        """Where a period finds it: the posting date, or the day of creation of a draft."""
        return self.date or self.created_at[:10]


def accepted(document: Mapping[str, object]) -> dict[str, str]:
    """The fields of a new entry, amount normalised; raises EntryRefused."""
    for name in document:
        if name not in REQUIRED + OPTIONAL:
            raise EntryRefused(str(name), "unknown field")
    texts = {"description": ""} | {name: _text(name, document) for name in REQUIRED}
    if "description" in document:
        texts["description"] = _text("description", document)
    if not re.fullmatch(r"[A-Z]{3}", texts["currency"]):
        raise EntryRefused("currency", "three capital letters")
    return texts | {
        "amount": _amount(texts["amount"], texts["currency"]),
        "refunded_on": _date(texts["refunded_on"]),
    }


def _text(name: str, document: Mapping[str, object]) -> str:
    value = document.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH:
        raise EntryRefused(name, f"text of at most {_MAX_TEXT_LENGTH} characters")
    if not value.strip() and name in REQUIRED:
        raise EntryRefused(name, "must not be empty")
    return value


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise EntryRefused("refunded_on", "a date, YYYY-MM-DD") from error


def _amount(text: str, currency: str) -> str:
    """More decimals than the currency has are refused, never rounded."""
    places = decimals(currency)
    match = re.fullmatch(r"[0-9]{1,15}(?:\.([0-9]+))?", text, re.ASCII)
    if match is None or len(match[1] or "") > places:
        raise EntryRefused("amount", f"a positive amount with at most {places} decimals")
    amount = Decimal(text)
    if amount == 0:
        raise EntryRefused("amount", "must be above zero")
    return f"{amount:.{places}f}"


class EntryBook:
    """All entries by number; changes only by applying recorded changes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.entries: dict[int, Entry] = {}
        self._ids_of_reference: dict[str, list[int]] = {}
        self.next_id = 1

    def with_reference(self, reference: str) -> list[Entry]:
        return [self.entries[entry_id] for entry_id in self._ids_of_reference.get(reference, [])]

    @staticmethod
    def as_it_is(entry: Entry) -> Change:
        """The change that adds this entry, or replaces its earlier state."""
        return "entry", asdict(entry)

    @staticmethod
    def removed(entry: Entry) -> Change:
        return "entry_removed", {"id": entry.id}

    def record(self, facts: JsonObject) -> None:
        entry = Entry(**facts)
        if entry.id not in self.entries:
            self._ids_of_reference.setdefault(entry.reference, []).append(entry.id)
        self.entries[entry.id] = entry
        self.next_id = max(self.next_id, entry.id + 1)

    def record_removed(self, facts: JsonObject) -> None:
        entry = self.entries.pop(facts["id"])
        self._ids_of_reference[entry.reference].remove(entry.id)
