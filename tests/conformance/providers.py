"""The payment providers that the suite runs against; add one here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import httpx

from payments.capabilities import BY_PROVIDER
from payments.outcomes import Capabilities
from payments.sandbox.process import SandboxProcess
from tests.conformance.fault_proxy import Request
from tests.conformance.foreign_servers import localstripe, stateful_mock
from tests.sandboxes import Json

TEST_KEY = "sk_test_conformance"


@dataclass(frozen=True)
class MoneyOut:
    """One refund as the counterpart's own books have it; amount in its own units."""

    reference: str
    payment: str
    wire_key: str
    operation_key: str
    amount: int
    currency: str
    status: str


class ProviderCounterpart(ABC):
    """A payment provider to test an adapter against. See the package for an example.

    `capabilities` are what this server really does, not what the real provider promises.
    `pays` and `looks_up` are patterns of requests, searched in method, target and body.
    """

    name: ClassVar[str]
    adapter: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    pays: ClassVar[str]
    looks_up: ClassVar[str]
    currencies: ClassVar[tuple[str, ...]] = ("USD", "JPY", "KWD")
    refuses_over_refunds: ClassVar[bool] = True
    url = ""

    def key_of(self, request: Request) -> str | None:
        """The idempotency key of a request, wherever this provider wants it."""
        return request.headers.get("idempotency-key")

    @property
    def honours_keys(self) -> bool:
        return self.capabilities.key_memory_seconds is not None

    @abstractmethod
    def running(self) -> AbstractContextManager[str]:
        """Start it on loopback and yield its address; skip where it is not installed."""

    @abstractmethod
    def settings(self, url: str) -> Json:
        """The product's settings that make the adapter call this address."""

    @abstractmethod
    def capture(self, amount_minor: int, currency: str) -> str:
        """Make a captured payment; returns what the provider calls it."""

    @abstractmethod
    def money_out(self, payment: str) -> list[MoneyOut]:
        """Every refund of a payment, from the counterpart's own books."""


class StripeDialect(ProviderCounterpart):
    """What all servers that speak Stripe's dialect have in common."""

    adapter = "stripe"
    pays = r"^POST /v1/refunds"
    looks_up = r"^GET /v1/refunds"

    def settings(self, url: str) -> Json:
        return {"STRIPE_API_BASE": url, "STRIPE_API_KEY": TEST_KEY}

    def money_out(self, payment: str) -> list[MoneyOut]:
        kind = "charge" if payment.startswith("ch_") else "payment_intent"
        listed: list[Json] = []
        query = {kind: payment, "limit": "100"}
        while True:
            page = self._http().get("/v1/refunds", params=query).raise_for_status().json()
            listed += page["data"]
            if not page["has_more"]:
                return [_money_out(payment, refund) for refund in listed]
            query["starting_after"] = listed[-1]["id"]

    def create(self, path: str, **fields: object) -> Json:
        created: Json = self._http().post(path, data=fields).raise_for_status().json()
        return created

    def _http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {TEST_KEY}"})


class Sandbox(StripeDialect):
    """Our own."""

    name = "sandbox"
    capabilities = BY_PROVIDER["stripe"]

    @contextmanager
    def running(self) -> Iterator[str]:
        with (
            TemporaryDirectory() as data,
            SandboxProcess("payments.sandbox", Path(data)) as process,
        ):
            yield process.url

    def capture(self, amount_minor: int, currency: str) -> str:
        card = {"payment_method": "pm_card_visa", "confirm": "true"}
        intent = self.create(
            "/v1/payment_intents", amount=amount_minor, currency=currency.lower(), **card
        )
        return str(intent["id"])


class LocalStripe(StripeDialect):
    """Ignores idempotency keys and refunds more than was captured: only we stand in the way."""

    name = "localstripe"
    capabilities = replace(BY_PROVIDER["stripe"], key_memory_seconds=None)
    refuses_over_refunds = False

    @contextmanager
    def running(self) -> Iterator[str]:
        with localstripe().running() as server:
            yield server.url

    def capture(self, amount_minor: int, currency: str) -> str:
        card = {"card[number]": "4242424242424242", "card[cvc]": "123"}
        expiry = {"card[exp_month]": 12, "card[exp_year]": 2099}
        method = self.create("/v1/payment_methods", type="card", **card, **expiry)
        intent = self.create(
            "/v1/payment_intents",
            amount=amount_minor,
            currency=currency.lower(),
            payment_method=method["id"],
            confirm="true",
        )
        return str(intent["id"])


class StatefulMock(StripeDialect):
    """Honours idempotency keys, for ever; knows no payment intents, so orders rest on charges."""

    name = "stripe-stateful-mock"
    capabilities = BY_PROVIDER["stripe"]
    # It refuses every currency with three decimals.
    currencies = ("USD", "JPY")

    @contextmanager
    def running(self) -> Iterator[str]:
        with stateful_mock().running() as server:
            yield server.url

    def capture(self, amount_minor: int, currency: str) -> str:
        charge = self.create(
            "/v1/charges", amount=amount_minor, currency=currency.lower(), source="tok_visa"
        )
        return str(charge["id"])


COUNTERPARTS: list[ProviderCounterpart] = [Sandbox(), LocalStripe(), StatefulMock()]


def _money_out(payment: str, refund: Json) -> MoneyOut:
    metadata = refund.get("metadata") or {}
    return MoneyOut(
        reference=refund["id"],
        payment=payment,
        wire_key=metadata.get("payment_key", ""),
        operation_key=metadata.get("operation_key", ""),
        amount=refund["amount"],
        currency=refund["currency"].upper(),
        status=refund["status"],
    )
