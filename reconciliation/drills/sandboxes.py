"""The sandboxes' own books and their controls, as an outsider sees them over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

_SECONDS = 30
# So many names fit into one address.
_KEYS_A_QUESTION = 40


class Sandbox:
    """What both have: faults that are ordered in advance."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=_SECONDS, trust_env=False)
        self._ordered: Counter[tuple[str, str]] = Counter()

    def order_fault(self, mode: str, match: str, **details: Any) -> None:
        """Let the next request go wrong that carries this text: a payment, a reference, a path."""
        self._post("/_control/faults", {"mode": mode, "times": 1, "match": match, **details})
        self._ordered[mode, match] += 1

    def faults_left(self, matches: set[str]) -> int:
        """How many of the ordered faults with these texts have hit nothing yet."""
        return sum(fault["match"] in matches for fault in self._faults())

    def faults_hit(self) -> Counter[str]:
        """How many of the faults ordered here have hit a request, by mode."""
        left = Counter((fault["mode"], fault["match"]) for fault in self._faults())
        hit: Counter[str] = Counter()
        for (mode, _match), times in (self._ordered - left).items():
            hit[mode] += times
        return hit

    def forget_faults(self) -> None:
        """Nothing goes wrong any more."""
        self._http.delete("/_control/faults").raise_for_status()

    def _faults(self) -> list[dict[str, Any]]:
        faults: list[dict[str, Any]] = self._read("/_control/faults")
        return faults

    def _read(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        return self._http.get(path, params=list(query)).raise_for_status().json()

    def _post(self, path: str, body: object) -> None:
        self._http.post(path, json=body).raise_for_status()


class SandboxProvider(Sandbox):
    """The provider's ledger, its payments and its events; amounts in minor units."""

    def register_payments(self, payments: Sequence[dict[str, Any]]) -> None:
        """Make `{payment, amount, currency}` known as captured; known ones stay as they are."""
        self._post("/_control/payments", list(payments))

    def money_out(self, payments: set[str]) -> list[dict[str, Any]]:
        """Every refund ever accepted on these payments."""
        ledger = self._read("/_control/ledger")
        return [refund for refund in ledger if refund["payment"] in payments]

    def refunds_of(self, operations: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Every refund ever accepted for these operations."""
        keys = [("operation_key", key) for key in operations]
        for start in range(0, len(keys), _KEYS_A_QUESTION):
            yield from self._read("/_control/ledger", keys[start : start + _KEYS_A_QUESTION])

    def move_refund(self, refund: str, status: str) -> None:
        """As the bank would: to succeeded or to failed."""
        self._post(f"/_control/refunds/{refund}", {"status": status})

    def hold_events(self, *, held: bool) -> None:
        """Keep events back, or send them again."""
        self._post("/_control/webhooks", {"hold": held})

    def undelivered(self) -> list[str]:
        """Events that have not been taken yet, oldest first."""
        events = self._read("/_control/events")
        return [entry["event"]["id"] for entry in events if not entry["delivered"]]

    def deliver(self, events: Sequence[str]) -> None:
        """Send these events at the same moment, however often each is named."""
        self._post("/_control/events", {"deliver": list(events), "at_once": True})

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Webhooks are kept back, so that only looking brings news; faults are gone afterwards."""
        self.hold_events(held=True)
        try:
            yield
        finally:
            self.forget_faults()
            self.hold_events(held=False)


class SandboxErp(Sandbox):
    """The ERP's entries."""

    def entries(self, references: set[str]) -> list[dict[str, Any]]:
        """Every entry, draft or posted, with one of these references."""
        entries = self._read("/_control/entries")
        return [entry for entry in entries if entry["reference"] in references]
