"""Each counterpart running behind its fault proxy, with the product configured to call it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
from pytest_django import Settings

from payments.capabilities import BY_PROVIDER
from payments.models import PaymentTask
from payments.providers import provider as cached_provider
from payments.providers.base import Provider
from reconciliation.erp import erp as cached_erp
from reconciliation.erp.base import Entry, Erp
from returns.models import RefundOperation
from tests.conformance.erps import ERPS, ErpCounterpart
from tests.conformance.fault_proxy import FaultProxy, Mode
from tests.conformance.providers import COUNTERPARTS, MoneyOut, ProviderCounterpart
from tests.recovery.conftest import door, start_worker
from tests.sandboxes import Json

# The worker processes of the crash tests, to be killed here too.
__all__ = ["door", "start_worker"]


@dataclass
class ProviderBench:
    """One adapter, its counterpart and the proxy between them."""

    counterpart: ProviderCounterpart
    proxy: FaultProxy

    @property
    def adapter(self) -> Provider:
        """The adapter as the product would get it, reading its settings now."""
        cached_provider.cache_clear()
        return cached_provider(self.counterpart.adapter)

    def fault(self, mode: Mode, *, seconds: float = 1, times: int = 1) -> None:
        """The next payment goes wrong in this way."""
        self.proxy.fault(mode, self.counterpart.pays, seconds=seconds, times=times)

    def fault_of_a_look_up(self, mode: Mode, *, seconds: float = 1) -> None:
        self.proxy.fault(mode, self.counterpart.looks_up, seconds=seconds)

    def keys_sent(self) -> list[str | None]:
        """The key of every request to pay, answered or not, oldest first."""
        seen = self.proxy.requests(self.counterpart.pays)
        return [self.counterpart.key_of(each.request) for each in seen]

    def money_out(self, payment: str) -> list[MoneyOut]:
        return self.counterpart.money_out(payment)

    def know_payments(self) -> None:
        """The orders of these tests rest on payments that the counterpart has made itself."""

    def ledger(self) -> list[Json]:
        """Every money-out on payments of ours, as the oracle reads it."""
        payments = PaymentTask.objects.values_list("tender__payment", flat=True).distinct()
        return [
            {
                "refund": out.reference,
                "idempotency_key": out.wire_key,
                "operation_key": out.operation_key,
                "amount": out.amount,
                "currency": out.currency,
                "status": out.status,
            }
            for payment in payments
            for out in self.money_out(payment)
        ]


@pytest.fixture(scope="session", params=COUNTERPARTS, ids=lambda counterpart: counterpart.name)
def provider_between(request: pytest.FixtureRequest) -> Iterator[ProviderBench]:
    """One counterpart for all tests of a process: each test has payments of its own there."""
    counterpart: ProviderCounterpart = request.param
    with counterpart.running() as url:
        counterpart.url = url
        with FaultProxy(url).listening() as proxy:
            yield ProviderBench(counterpart, proxy)


@pytest.fixture
def bench(
    provider_between: ProviderBench, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProviderBench]:
    """A counterpart behind the proxy, declared as what it is, and the product calling it."""
    counterpart = provider_between.counterpart
    for name, value in counterpart.settings(provider_between.proxy.url).items():
        setattr(settings, name, value)
    monkeypatch.setitem(BY_PROVIDER, counterpart.adapter, counterpart.capabilities)
    provider_between.proxy.reset()
    cached_provider.cache_clear()
    yield provider_between
    cached_provider.cache_clear()


@dataclass
class ErpBench:
    """One ERP's adapter, its counterpart and the proxy between them."""

    counterpart: ErpCounterpart
    proxy: FaultProxy

    @property
    def adapter(self) -> Erp:
        """The adapter as the product would get it, reading its settings now."""
        cached_erp.cache_clear()
        return cached_erp()

    def booked(self, reference: UUID) -> list[Entry]:
        """Every entry under a reference, from the ERP's own books."""
        return self.counterpart.entries(reference)

    def entries(self) -> list[Json]:
        """Every entry under the key of an operation of ours, as the oracle reads it."""
        return [
            {
                "id": entry.entry,
                "reference": entry.reference,
                "amount": str(entry.amount_minor),
                "currency": entry.currency,
                "state": "posted" if entry.posted else "draft",
            }
            for key in RefundOperation.objects.values_list("operation_key", flat=True)
            for entry in self.booked(key)
        ]


@pytest.fixture(scope="session", params=ERPS, ids=lambda counterpart: counterpart.name)
def erp_between(request: pytest.FixtureRequest) -> Iterator[ErpBench]:
    """One ERP for all tests of a process: each test has references of its own there."""
    counterpart: ErpCounterpart = request.param
    with counterpart.running() as url:
        counterpart.url = url
        with FaultProxy(url).listening() as proxy:
            yield ErpBench(counterpart, proxy)


@pytest.fixture
def books(erp_between: ErpBench, settings: Settings) -> Iterator[ErpBench]:
    """An ERP behind the proxy, and the product calling it."""
    counterpart = erp_between.counterpart
    settings.ERP_ADAPTER = counterpart.adapter
    for name, value in counterpart.settings(erp_between.proxy.url).items():
        setattr(settings, name, value)
    erp_between.proxy.reset()
    cached_erp.cache_clear()
    yield erp_between
    cached_erp.cache_clear()
