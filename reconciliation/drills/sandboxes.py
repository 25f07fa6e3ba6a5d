"""The sandboxes' own books and their controls, as an outsider sees them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

_SECONDS = 30


class SandboxProvider:
    """The provider's ledger, its payments and its faults; amounts in minor units."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=_SECONDS, trust_env=False)

    def register_payments(self, payments: Sequence[dict[str, Any]]) -> None:
        """Make `{payment, amount, currency}` known as captured; known ones stay as they are."""
        self._post("/_control/payments", list(payments))

    def money_out(self, payments: set[str]) -> list[dict[str, Any]]:
        """Every refund ever accepted on these payments."""
        ledger = self._http.get("/_control/ledger").raise_for_status().json()
        return [refund for refund in ledger if refund["payment"] in payments]

    def order_fault(self, mode: str, payment: str, **details: Any) -> None:
        """Let the next refund request for one payment go wrong."""
        fault = {"mode": mode, "times": 1, "match": payment, **details}
        self._post("/_control/faults", fault)

    def faults_left(self, payments: set[str]) -> int:
        """How many of the ordered faults on these payments have hit nothing yet."""
        faults = self._http.get("/_control/faults").raise_for_status().json()
        return sum(fault["match"] in payments for fault in faults)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Webhooks are kept back, so that only looking brings news; faults are gone afterwards."""
        self._post("/_control/webhooks", {"hold": True})
        try:
            yield
        finally:
            self._http.delete("/_control/faults").raise_for_status()
            self._post("/_control/webhooks", {"hold": False})

    def _post(self, path: str, body: object) -> None:
        self._http.post(path, json=body).raise_for_status()


class SandboxErp:
    """The ERP's entries."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=_SECONDS, trust_env=False)

    def entries(self, references: set[str]) -> list[dict[str, Any]]:
        """Every entry, draft or posted, with one of these references."""
        entries = self._http.get("/_control/entries").raise_for_status().json()
        return [entry for entry in entries if entry["reference"] in references]
