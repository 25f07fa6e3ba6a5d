"""Cash, gift card, bank transfer: a person hands the money over. There is nobody to call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from payments.outcomes import Deferred, Outcome, Unknown
from payments.providers.base import (
    BadSignature,
    Movement,
    NotUnderstood,
    PaymentOrder,
    ProviderNews,
)


class ManualProvider:
    """No provider remembers a key here; the database alone protects the counter."""

    def pay(self, order: PaymentOrder) -> Outcome:
        return Deferred("a person hands this money over")

    def find(self, order: PaymentOrder) -> Outcome:
        return Unknown("only the person who handed it over knows")

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderNews:
        raise BadSignature("no provider sends events for manual payments")

    def reread_event(self, body: str) -> ProviderNews:
        raise NotUnderstood("no provider sends events for manual payments")

    def movements(self, start: datetime, end: datetime) -> Iterator[Movement]:
        return iter(())
