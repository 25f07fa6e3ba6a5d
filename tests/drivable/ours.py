"""This product over HTTP: its API, its workers, its sandboxes as processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx
from rest_framework.authtoken.models import Token

from tests import factories
from tests.drivable.driver import FAILED, PAID, REFUSED, WAITING
from tests.sandboxes import SandboxProvider
from tests.workers import at_once, run_until_done

CURRENCY = "EUR"
ANSWER_SECONDS = 30
# What our states mean to somebody who only wants to know whether the money is out.
_MEANS = {"paid": PAID, "posted": PAID, "approved": FAILED, "rejected": REFUSED}


class RefundDesk:
    """The product as an integrator, a support agent and a manager see it."""

    def __init__(self, web: str, provider: SandboxProvider) -> None:
        self._provider = provider
        self._http = httpx.Client(
            base_url=f"{web}/api/v1/", timeout=ANSWER_SECONDS, trust_env=False
        )
        people = {
            "integration": factories.integration(),
            "agent": factories.desk(),
            "manager": factories.manager(),
        }
        self._tokens = {
            name: Token.objects.get_or_create(user=user)[0].key for name, user in people.items()
        }

    def __enter__(self) -> RefundDesk:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def sell(self, captured_minor: int) -> str:
        number, amount = uuid4().hex[:20].upper(), _major(captured_minor)
        goods = {"id": "goods", "sku": "G", "description": "Goods", "quantity": 1}
        card = {"id": "card", "provider": "stripe", "payment": f"pi_{number}", "label": "Card"}
        body = {
            "currency": CURRENCY,
            "placed_at": "2026-11-01T10:00:00Z",
            "customer": {"reference": "c", "name": "C"},
            "lines": [{**goods, "unit_price": amount}],
            "tenders": [{**card, "amount": amount}],
        }
        self._call("PUT", f"orders/{number}/", "integration", body).raise_for_status()
        self._provider.know_payments()
        return number

    def submit(self, order: str, *, channel: str, message: str, part_minor: int = 0) -> str | None:
        what: dict[str, Any] = {"items": [{"line": "goods", "quantity": 1}]}
        if part_minor:
            what = {"items": [], "goodwill": {"case": message, "amount": _major(part_minor)}}
        body = {"channel": channel, "message_id": message, "order": order, **what}
        answer = self._call("POST", "returns/", "agent", body)
        if not answer.is_success:
            return None
        operation = str(answer.json()["operation"])
        good = {"line": "goods", "unit": 1, "condition": "good", "restock": True}
        found = {"accepted": [] if part_minor else [good], "rejected": []}
        self._call("POST", f"returns/{operation}/inspect/", "agent", found)
        return operation

    def approve(self, refund: str, amount_minor: int) -> bool:
        body = {"amount": _major(amount_minor)}
        return self._call("POST", f"returns/{refund}/approve/", "manager", body).is_success

    def at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        return at_once(calls)

    def run_workers(self) -> None:
        run_until_done(self._provider)

    def lose_the_next_answer(self, order: str) -> None:
        self._provider.fault("drop_after", match=f"pi_{order}")

    def money_outs(self, order: str) -> list[int]:
        ledger = self._provider.ledger()
        return [out["amount"] for out in ledger if out["payment"] == f"pi_{order}"]

    def state(self, refund: str) -> str:
        answer = self._call("GET", f"returns/{refund}/", "manager").raise_for_status()
        return _MEANS.get(answer.json()["state"], WAITING)

    def _call(self, method: str, path: str, who: str, body: Any = None) -> httpx.Response:
        token = {"Authorization": f"Token {self._tokens[who]}"}
        return self._http.request(method, path, json=body, headers=token)


def _major(amount_minor: int) -> str:
    return f"{amount_minor // 100}.{amount_minor % 100:02}"
