"""The two sandboxes as tests see them: real processes, their control API, their books."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import httpx

from payments.providers.stripe import TIMES_HUNDRED_AT_STRIPE
from payments.sandbox.process import SandboxProcess
from returns.models import Tender

Json = dict[str, Any]


@runtime_checkable
class MoneyOuts(Protocol):
    """What workers and the oracle need to know of any provider, ours or another's."""

    def know_payments(self) -> None:
        """Let the provider know every payment that our orders rest on."""

    def ledger(self) -> list[Json]:
        """Every money-out."""


@runtime_checkable
class Credits(Protocol):
    """What the oracle needs to know of any ERP."""

    def entries(self) -> list[Json]:
        """Every credit entry, drafts included."""


class Sandbox:
    """What both have in common."""

    def __init__(self, process: SandboxProcess) -> None:
        self.process = process
        self.url = process.url
        self._http = httpx.Client(base_url=process.url)

    def control(self, path: str, document: object) -> Any:
        answer = self._http.post(f"/_control/{path}", json=document)
        answer.raise_for_status()
        return answer.json()

    def read(self, path: str) -> Any:
        answer = self._http.get(f"/_control/{path}")
        answer.raise_for_status()
        return answer.json()

    def fault(self, mode: str, **options: object) -> None:
        """The next request that fits goes wrong in this way; `times`, `match`, `seconds`."""
        self.control("faults", {"mode": mode, **options})

    def faults(self) -> list[Json]:
        """The faults still to come."""
        listed: list[Json] = self.read("faults")
        return listed

    def clear_faults(self) -> None:
        """What was ordered and has not happened yet will not happen."""
        self._http.delete("/_control/faults").raise_for_status()

    def under_way(self) -> list[Json]:
        """Requests that were sent and have not arrived (`late`), oldest first."""
        listed: list[Json] = self.read("late")
        return listed

    def let_arrive(self) -> None:
        """What is under way arrives now, whatever its fault said."""
        self.control("late", {})

    def advance_clock(self, seconds: float) -> None:
        self.control("clock", {"advance_seconds": seconds})

    def requests(self) -> list[Json]:
        """Every request seen, oldest first."""
        seen: list[Json] = self.read("requests")
        return seen

    def reset(self) -> None:
        self.control("reset", {})

    def close(self) -> None:
        self._http.close()


class SandboxProvider(Sandbox):
    """The payment provider."""

    def know_payments(self) -> None:
        """Let the provider know every card payment that our orders rest on."""
        cards = Tender.objects.filter(provider="stripe").select_related("order")
        self.control("payments", [_payment(tender) for tender in cards])

    def ledger(self) -> list[Json]:
        """Every money-out."""
        listed: list[Json] = self.read("ledger")
        return listed

    def refund_requests(self) -> list[Json]:
        """Every request for a refund, answered or not."""
        return [seen for seen in self.requests() if _is(seen, "POST", "/v1/refunds")]

    def move_refund(self, refund: str, status: str) -> Json:
        """To `succeeded` or `failed`, as the bank would."""
        moved: Json = self.control(f"refunds/{refund}", {"status": status})
        return moved

    def dispute(self, payment: str, amount_minor: int) -> None:
        """The customer's bank takes a payment back."""
        self.control("disputes", {"payment": payment, "amount": amount_minor})

    def events(self) -> list[Json]:
        """Every event the provider has for us."""
        listed: list[Json] = self.read("events")
        return listed


class SandboxErp(Sandbox):
    """The ERP."""

    def entries(self) -> list[Json]:
        """Every credit entry, drafts included."""
        listed: list[Json] = self.read("entries")
        return listed

    def unique_reference(self, wanted: bool) -> None:
        """Whether a second entry with the same reference is refused."""
        self.control("settings", {"unique_reference": wanted})


def _payment(tender: Tender) -> Json:
    factor = 100 if tender.order.currency in TIMES_HUNDRED_AT_STRIPE else 1
    return {
        "payment": tender.payment,
        "amount": tender.amount_minor * factor,
        "currency": tender.order.currency,
    }


def _is(seen: Json, method: str, path: str) -> bool:
    return (seen["method"], seen["path"]) == (method, path)
