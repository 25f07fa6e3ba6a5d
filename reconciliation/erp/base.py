"""What an ERP's adapter must be able to do. Adapters know no models.

Looking up before creating is not enough: a first request that is still running when we time out
commits after our look-up. So either the ERP holds our reference unique, or entries are created as
drafts, which have no effect on the ledger, and only one is ever posted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol
from uuid import UUID

from payments.outcomes import Capabilities


@dataclass(frozen=True)
class Credit:
    """One credit to be written; amount in minor units, `reference` is the operation's key."""

    reference: UUID
    order: str
    amount_minor: int
    currency: str
    refunded_on: date
    description: str


@dataclass(frozen=True)
class Entry:
    """One credit as the ERP lists it; amount in minor units."""

    entry: str
    reference: str
    amount_minor: int
    currency: str
    posted: bool
    # The ERP's own posting date; a draft has none. It does not make another entry of the same one.
    posted_on: date | None = field(default=None, compare=False)


class ErpUnknown(Exception):
    """No answer, or none that can be understood: it may have happened."""


class ErpRefused(Exception):
    """The ERP says no, and why."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code, self.reason = code, reason


class Erp(Protocol):
    """One ERP company. Every call raises ErpUnknown or ErpRefused when it does not succeed."""

    capabilities: Capabilities

    def find(self, reference: UUID) -> list[Entry]:
        """Every entry under this reference, drafts included, lowest first."""

    def create_draft(self, credit: Credit) -> Entry:
        """Create a draft. A duplicate that the ERP itself refuses raises ErpRefused."""

    def post(self, entry: str) -> Entry:
        """Post a draft; today's date is the posting date. An entry already posted is returned."""

    def delete_draft(self, entry: str) -> None:
        """Delete a draft. Raises ErpRefused when it is posted; a missing one is fine."""

    def entries(self, start: date, end: date) -> Iterator[Entry]:
        """Every entry of a period, all pages."""
