"""What a payment provider's adapter must be able to do. Adapters know no models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from payments.outcomes import Accepted, Outcome, Refused, Settled


@dataclass(frozen=True)
class PaymentOrder:
    """Everything an adapter needs to make or to find one payment; amount in minor units.

    `payment` is what the provider calls the captured payment that the money goes back on;
    `provider_refund` is what it calls the refund, where it has already told us.
    """

    wire_key: UUID
    operation_key: UUID
    reference: str
    order: str
    payment: str
    amount_minor: int
    currency: str
    provider_refund: str | None = None


@dataclass(frozen=True)
class ProviderNews:
    """One verified event: which of our payments it is about and what it says has become of it.

    `wire_key` and `provider_refund` are None where the event names none; `payments` are the names
    of the captured payment it is about; `says` is None where it is not about a refund's state.
    `taken_back` is what the customer's bank has taken of the payment (a chargeback). `unread` says
    why nothing more than the envelope could be read.
    """

    event_id: str
    kind: str
    occurred_at: datetime
    live_mode: bool
    wire_key: UUID | None = None
    provider_refund: str | None = None
    payments: tuple[str, ...] = ()
    says: Settled | Accepted | Refused | None = None
    taken_back: Settled | None = None
    unread: str = ""


@dataclass(frozen=True, slots=True)
class Movement:
    """One movement of our balance at the provider, for a refund or a chargeback.

    `line_id` is the number that the provider's settlement files give it too. `amount_minor` left
    us, negative where it came back; `operation` is our key as the provider has kept it.
    """

    line_id: str
    kind: Literal["refund", "refund_returned", "chargeback", "chargeback_reversed"]
    refund: str
    payment: str
    operation: str
    amount_minor: int
    currency: str
    at: datetime


class NotListed(Exception):
    """The provider has given no list of movements, or one that cannot be understood."""


class BadSignature(Exception):
    """The event was not signed by the provider, or is too old to be believed."""


class NotUnderstood(Exception):
    """The event is genuine, but not even its envelope can be read; it is kept as it came."""


class Provider(Protocol):
    """One payment provider. `pay` and `find` never raise for what the other side does."""

    def pay(self, order: PaymentOrder) -> Outcome:
        """Ask for the payment, with the order's wire key as idempotency key."""

    def find(self, order: PaymentOrder) -> Outcome:
        """Look the payment up by our own key: what was found, or Absent, or Unknown."""

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderNews:
        """Verify and read a webhook. Raises BadSignature or NotUnderstood."""

    def reread_event(self, body: str) -> ProviderNews:
        """Read an event that was verified when it was stored. Raises NotUnderstood."""

    def movements(self, start: datetime, end: datetime) -> Iterator[Movement]:
        """Every movement from `start` until before `end`, all pages. Raises NotListed."""
