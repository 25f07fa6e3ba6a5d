"""The ERPs that the suite runs against; add one here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar
from uuid import UUID

import httpx

from payments.sandbox.process import SandboxProcess
from reconciliation.erp.base import Entry
from returns import money
from tests.sandboxes import Json


class ErpCounterpart(ABC):
    """An ERP company to test an adapter against; what is in its books already does no harm.

    An ERP that can be told to keep references unique is two of these, one of each kind. A first
    request that commits after our look-up needs nothing of the ERP: the proxy holds it back.

    `creates`, `posts`, `deletes` and `looks_up` are patterns of requests, searched in method,
    target and body. `unique_reference`: whether it refuses a second entry under one reference.
    """

    name: str
    unique_reference: bool
    adapter: ClassVar[str]
    creates: ClassVar[str]
    posts: ClassVar[str]
    deletes: ClassVar[str]
    looks_up: ClassVar[str]
    currencies: ClassVar[tuple[str, ...]] = ("USD", "JPY", "KWD")
    url = ""

    @abstractmethod
    def running(self) -> AbstractContextManager[str]:
        """Start it on loopback and yield its address; skip where it is not installed."""

    @abstractmethod
    def settings(self, url: str) -> Json:
        """The product's settings that make the adapter call this address."""

    @abstractmethod
    def entries(self, reference: UUID) -> list[Entry]:
        """Every entry under a reference, drafts included, from the ERP's own books."""


class Sandbox(ErpCounterpart):
    """Our own, which can be either kind of ERP."""

    adapter = "reconciliation.erp.sandbox.SandboxErp"
    creates = r"^POST /entries\s"
    posts = r"^POST /entries/\d+/post"
    deletes = r"^DELETE /entries/"
    looks_up = r"^GET /entries"

    def __init__(self, *, unique_reference: bool) -> None:
        self.unique_reference = unique_reference
        self.name = "sandbox-unique" if unique_reference else "sandbox-not-unique"

    @contextmanager
    def running(self) -> Iterator[str]:
        switch = ("--unique-reference", "on" if self.unique_reference else "off")
        with (
            TemporaryDirectory() as data,
            SandboxProcess("reconciliation.sandbox", Path(data), *switch) as process,
        ):
            yield process.url

    def settings(self, url: str) -> Json:
        return {"ERP_URL": url}

    def entries(self, reference: UUID) -> list[Entry]:
        rows = httpx.get(f"{self.url}/_control/entries").raise_for_status().json()
        return [
            Entry(
                entry=str(row["id"]),
                reference=row["reference"],
                amount_minor=money.parse(row["amount"], row["currency"]),
                currency=row["currency"],
                posted=row["state"] == "posted",
            )
            for row in rows
            if row["reference"] == str(reference)
        ]


ERPS: list[ErpCounterpart] = [Sandbox(unique_reference=True), Sandbox(unique_reference=False)]
