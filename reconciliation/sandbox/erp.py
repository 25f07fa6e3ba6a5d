"""The ERP as a whole: the entries interface, its one switch and its control API."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl

from payments.sandbox.base import Control, Sandbox, one_of
from payments.sandbox.exchange import (
    Answer,
    BadRequestError,
    NoRouteError,
    Request,
    Routes,
    json_answer,
    refused,
)
from payments.sandbox.faults import TRANSPORT_MODES, Fault
from payments.sandbox.journal import JsonObject
from reconciliation.sandbox.entries import Entry, EntryBook, EntryRefused, accepted

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 1000
_FILTERS = frozenset({"reference", "from", "to", "state", "limit", "after"})


class Erp(Sandbox):
    fault_modes: ClassVar = TRANSPORT_MODES | {
        "refuse",  # 400 code "refused", nothing applied
        "closed_period",  # the same, for the reason ERPs usually have
    }
    default_fault_target: ClassVar = "POST /entries"

    def __init__(self, data: Path, *, unique_reference: bool = True) -> None:
        """Open the storage in `data`; `unique_reference` holds until changed by the control API."""
        self._book = EntryBook()
        self._unique_at_start = self._unique_reference = unique_reference
        super().__init__(data)
        self._routes: Routes[Callable[..., Answer]] = Routes(
            {
                "GET /entries": self._list,
                "POST /entries": self._create,
                "GET /entries/<>": self._show,
                "DELETE /entries/<>": self._delete,
                "POST /entries/<>/post": self._post,
            }
        )

    def appliers(self) -> dict[str, Callable[[JsonObject], None]]:
        return super().appliers() | {
            "entry": self._book.record,
            "entry_removed": self._book.record_removed,
        }

    def control_routes(self) -> dict[str, Control]:
        return super().control_routes() | {
            "GET /_control/entries": self._show_all,
            "GET /_control/settings": self._show_settings,
            "POST /_control/settings": self._change_settings,
        }

    def forget_everything(self) -> None:
        self._book.clear()
        self._unique_reference = self._unique_at_start

    def parameters(self, request: Request) -> object:
        try:
            return request.json() if request.body else {}
        except BadRequestError:
            return request.body.decode("utf-8", "replace")

    def refusal(self, fault: Fault) -> Answer | None:
        if fault.mode in {"refuse", "closed_period"}:
            reason = "the period is closed" if fault.mode == "closed_period" else "refused"
            return refused(400, "refused", reason)
        if fault.mode == "rate_limit":
            wait_seconds = max(1, math.ceil(fault.seconds))
            answer = refused(429, "rate_limit", "too many requests")
            return replace(answer, headers={"Retry-After": str(wait_seconds)})
        if fault.mode == "unauthorized":
            return refused(401, "unauthorized", "not signed in")
        return _out_of_order() if fault.mode == "error_before" else None

    def execute(self, request: Request, mode: str) -> Answer:
        try:
            endpoint, identifiers = self._routes.find(request)
            with self.lock:
                answer = endpoint(request, *identifiers)
        except NoRouteError as error:
            return refused(error.status, "no_route", str(error))
        except EntryRefused as error:
            return refused(400, "invalid", str(error), field=error.field)
        except BadRequestError as error:
            return refused(400, "invalid", str(error))
        return _out_of_order() if mode == "error_after" else answer

    # The entries interface.

    def _create(self, request: Request) -> Answer:
        fields = accepted(request.json_object())
        same = self._book.with_reference(fields["reference"])
        if self._unique_reference and same:
            detail = f"reference {fields['reference']} already has an entry"
            return refused(400, "duplicate_reference", detail, entry=same[0].id)
        entry = Entry(id=self._book.next_id, state="draft", created_at=self._clock_text(), **fields)
        self.commit([self._book.as_it_is(entry)])
        return json_answer(201, asdict(entry))

    def _post(self, request: Request, entry_id: str) -> Answer:
        """With today's date by the ERP's clock, whatever the date of the refund."""
        entry = self._entry(entry_id)
        if entry is None:
            return _not_found(entry_id)
        if entry.state == "posted":
            return refused(400, "already_posted", f"entry {entry.id} is posted", entry=entry.id)
        now = self._clock_text()
        posted = replace(entry, state="posted", posted_at=now, date=now[:10])
        self.commit([self._book.as_it_is(posted)])
        return json_answer(200, asdict(posted))

    def _delete(self, request: Request, entry_id: str) -> Answer:
        entry = self._entry(entry_id)
        if entry is None:
            return _not_found(entry_id)
        if entry.state == "posted":
            return refused(400, "posted", f"entry {entry.id} is posted", entry=entry.id)
        self.commit([self._book.removed(entry)])
        return Answer(204, b"")

    def _show(self, request: Request, entry_id: str) -> Answer:
        entry = self._entry(entry_id)
        return json_answer(200, asdict(entry)) if entry else _not_found(entry_id)

    def _list(self, request: Request) -> Answer:
        """In order of number; `from` and `to` (inclusive) look at the entry's day."""
        query = dict(parse_qsl(request.query))
        if unknown := set(query) - _FILTERS:
            raise BadRequestError(f"unknown filter: {', '.join(sorted(unknown))}")
        first, last = _day(query, "from"), _day(query, "to")
        limit = _number(query, "limit", _DEFAULT_LIMIT)
        after = _number(query, "after", 0)
        if not 1 <= limit <= _MAX_LIMIT:
            raise BadRequestError(f"limit must be between 1 and {_MAX_LIMIT}")
        reference = query.get("reference")
        entries = self._book.with_reference(reference) if reference else self._in_order()
        found = [
            entry
            for entry in entries
            if entry.id > after
            and (first is None or entry.day >= first)
            and (last is None or entry.day <= last)
            and query.get("state", entry.state) == entry.state
        ]
        shown = [asdict(entry) for entry in found[:limit]]
        return json_answer(200, {"data": shown, "has_more": len(found) > limit})

    # Its control API.

    def _show_all(self, request: Request) -> Answer:
        with self.lock:
            return json_answer(200, [asdict(entry) for entry in self._in_order()])

    def _show_settings(self, request: Request) -> Answer:
        return json_answer(200, {"unique_reference": self._unique_reference})

    def _change_settings(self, request: Request) -> Answer:
        """For this run and until the next reset; the start option decides after a restart."""
        wanted = one_of(request.json_object(), "unique_reference", (True, False))
        with self.lock:
            self._unique_reference = bool(wanted)
        return self._show_settings(request)

    # Finding things.

    def _in_order(self) -> list[Entry]:
        return list(self._book.entries.values())

    def _entry(self, entry_id: str) -> Entry | None:
        return self._book.entries.get(int(entry_id)) if entry_id.isdecimal() else None

    def _clock_text(self) -> str:
        return self.clock.now().isoformat().replace("+00:00", "Z")


def _not_found(entry_id: str) -> Answer:
    return refused(404, "not_found", f"no entry {entry_id}")


def _out_of_order() -> Answer:
    return refused(500, "error", "something went wrong")


def _day(query: dict[str, str], name: str) -> str | None:
    if name not in query:
        return None
    try:
        return date.fromisoformat(query[name]).isoformat()
    except ValueError as error:
        raise BadRequestError(f"{name} must be a date, YYYY-MM-DD") from error


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isdecimal():
        raise BadRequestError(f"{name} must be a whole number")
    return int(text)
