"""The sandbox ERP over its JSON interface."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any
from uuid import UUID

import httpx
from django.conf import settings

from payments.outcomes import Capabilities
from reconciliation.erp.base import Credit, Entry, ErpRefused, ErpUnknown
from returns import money

CONNECT_SECONDS = 3
# Find, delete, find again and post: one lease covers them all.
MOST_CALLS_A_STEP = 4


class SandboxErp:
    """Drafts have no effect, and the reference may be unique: sending twice does no harm."""

    capabilities = Capabilities(
        key_memory_seconds=None,
        lookup_lag_seconds=0,
        max_under_way_seconds=settings.ERP_MAX_UNDER_WAY_SECONDS,
        repeat_is_harmless=True,
        two_steps=True,
        refusal_needs_a_person=True,
    )

    def __init__(self) -> None:
        seconds = settings.OUTBOUND_TIMING["call_seconds"] / MOST_CALLS_A_STEP
        self._client = httpx.Client(
            base_url=settings.ERP_URL, timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        )

    def find(self, reference: UUID) -> list[Entry]:
        return list(self._listed({"reference": str(reference)}))

    def create_draft(self, credit: Credit) -> Entry:
        body = {
            "reference": str(credit.reference),
            "amount": money.plain(credit.amount_minor, credit.currency),
            "currency": credit.currency,
            "refunded_on": credit.refunded_on.isoformat(),
            "order": credit.order,
            "description": credit.description,
        }
        return _entry(self._call("POST", "/entries", json=body))

    def post(self, entry: str) -> Entry:
        try:
            return _entry(self._call("POST", f"/entries/{entry}/post"))
        except ErpRefused as refusal:
            if refusal.code != "already_posted":
                raise
            return _entry(self._call("GET", f"/entries/{entry}"))

    def delete_draft(self, entry: str) -> None:
        try:
            self._call("DELETE", f"/entries/{entry}")
        except ErpRefused as refusal:
            if refusal.code != "not_found":
                raise

    def entries(self, start: date, end: date) -> Iterator[Entry]:
        yield from self._listed({"from": start.isoformat(), "to": end.isoformat()})

    def _listed(self, query: dict[str, str]) -> Iterator[Entry]:
        after: dict[str, str] = {}
        while True:
            entries, has_more = _page(self._call("GET", "/entries", params={**query, **after}))
            yield from entries
            if not has_more:
                return
            after = {"after": entries[-1].entry}

    def _call(self, method: str, path: str, **kwargs: Any) -> Any:
        """One request. 4xx JSON is a refusal; everything else that is not success is unknown."""
        try:
            response = self._client.request(method, path, **kwargs)
            body = response.json() if response.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise ErpUnknown(f"{type(error).__name__}: {error}") from error
        if response.is_success:
            return body
        if response.status_code in (400, 404, 409) and isinstance(body, dict):
            raise ErpRefused(str(body.get("code", "refused")), str(body.get("detail", body)))
        raise ErpUnknown(f"HTTP {response.status_code}")


def _page(answer: Any) -> tuple[list[Entry], bool]:
    """The entries of one page, and whether there are more behind the last of them."""
    try:
        entries, has_more = [_entry(row) for row in answer["data"]], bool(answer["has_more"])
    except (KeyError, TypeError) as error:
        raise ErpUnknown(f"a list that cannot be understood: {error!r}") from error
    if has_more and not entries:
        raise ErpUnknown("an empty page that is not the last")
    return entries, has_more


def _entry(row: Any) -> Entry:
    try:
        return Entry(
            entry=str(row["id"]),
            reference=row["reference"],
            amount_minor=money.parse(row["amount"], row["currency"]),
            currency=row["currency"],
            posted=row["state"] == "posted",
            posted_on=date.fromisoformat(row["date"]) if row["date"] else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ErpUnknown(f"an entry that cannot be understood: {error!r}") from error
