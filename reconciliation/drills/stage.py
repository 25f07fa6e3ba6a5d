"""What every drill needs: fresh sales, the steps of a return as calls, and the outsiders' books."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from reconciliation.drills.crowd import Answer, Call, Crowd, Progress
from reconciliation.drills.place import Demo, DrillError
from reconciliation.drills.sandboxes import SandboxErp, SandboxProvider
from returns import money

POLL_SECONDS = 0.5
# A lease must end and looks back off before the last payment after a fault is found; when
# nothing new has been booked for this long, nothing will be.
QUIET_SECONDS = 150
LINE = "goods-1"
# One sale after the other: two, none and three decimals.
TOTALS = (("EUR", "49.90"), ("USD", "120.00"), ("JPY", "5800"), ("KWD", "18.600"))


@dataclass(frozen=True)
class Sale:
    """A fresh order of one line and one card payment; `total` in major units."""

    number: str
    payment: str
    currency: str
    total: str

    @property
    def total_minor(self) -> int:
        return money.parse(self.total, self.currency)


@dataclass
class Stage:
    """A running demo, a crowd of client processes, and how many orders to rehearse with."""

    demo: Demo
    crowd: Crowd
    size: int
    say: Callable[[str], None]
    provider: SandboxProvider = field(init=False)
    erp: SandboxErp = field(init=False)

    def __post_init__(self) -> None:
        self.provider = SandboxProvider(self.demo.provider)
        self.erp = SandboxErp(self.demo.erp)
        # No drill meets the orders of another, or of an earlier run.
        self.run = f"{datetime.now(UTC):%y%m%d%H%M%S}{secrets.token_hex(2)}".upper()

    def telling(self, what: str) -> Progress:
        """A progress report under a heading."""
        return lambda done, whole: self.say(f"{what}: {done} of {whole}")

    # Fresh orders.

    def sell(self, totals: Sequence[tuple[str, str]] = TOTALS) -> list[Sale]:
        """As many new orders as the drill wants, their payments known to the provider."""
        sales = [self.sale(index, *totals[index % len(totals)]) for index in range(self.size)]
        self.register_payments(sales)
        orders = [self.ordering(sale) for sale in sales]
        require(self.crowd.spread(orders, self.telling("orders")), "taking an order in")
        return sales

    def sale(self, index: int, currency: str, total: str) -> Sale:
        """The drill's sale of this index, of a total in major units; nobody knows it yet."""
        name = f"{self.run}-{index:05d}"
        return Sale(f"DRILL-{name}", f"pi_drill_{name}", currency, total)

    def register_payments(self, sales: Iterable[Sale]) -> None:
        """Let the provider know what was paid for these sales."""
        self.provider.register_payments(
            [
                {"payment": sale.payment, "amount": sale.total_minor, "currency": sale.currency}
                for sale in sales
            ]
        )

    def ordering(self, sale: Sale) -> Call:
        """The shop tells of a sale."""
        body = {
            "currency": sale.currency,
            "placed_at": datetime.now(UTC).isoformat(),
            "customer": {"reference": "drill", "name": "A Drill"},
            "lines": [
                {
                    "id": LINE,
                    "sku": "DRILL",
                    "description": "Goods of a drill",
                    "quantity": 1,
                    "unit_price": sale.total,
                }
            ],
            "tenders": [
                {
                    "id": "card",
                    "provider": "stripe",
                    "payment": sale.payment,
                    "amount": sale.total,
                    "label": "Drill card",
                }
            ],
        }
        token = self.demo.tokens["integration"]
        return Call("PUT", f"/api/v1/orders/{sale.number}/", token, body)

    # The steps of a return.

    def taking_in(self, sale: Sale, channel: str, message: str, **what: Any) -> Call:
        """A message about an order: by default about its goods. The counter's is the till's own."""
        token = self.demo.tokens["integration" if channel == "counter" else "online"]
        goods = {"items": [{"line": LINE, "quantity": 1}]}
        body = {"channel": channel, "message_id": message, "order": sale.number, **(what or goods)}
        return Call("POST", "/api/v1/returns/", token, body)

    def inspecting(self, operation: str, *, goods: bool = True) -> Call:
        """Everything was found good."""
        found = [{"line": LINE, "unit": 1, "condition": "as new", "restock": True}]
        body = {"accepted": found if goods else [], "rejected": []}
        return self._step(operation, "inspect", "online", body)

    def approving(self, operation: str, amount: str, by: str = "manager") -> Call:
        """A manager's yes to an amount in major units."""
        return self._step(operation, "approve", by, {"amount": amount})

    def _step(self, operation: str, step: str, by: str, body: dict[str, Any]) -> Call:
        return Call("POST", f"/api/v1/returns/{operation}/{step}/", self.demo.tokens[by], body)

    def take_in(self, sales: Sequence[Sale]) -> dict[str, Sale]:
        """Each sale's goods once; the sales by their operation's key."""
        messages = [self.taking_in(sale, "online", f"m-{sale.number}") for sale in sales]
        answers = self.crowd.spread(messages, self.telling("taken in"))
        require(answers, "taking a return in")
        return {a.body["operation"]: sale for a, sale in zip(answers, sales, strict=True)}

    def inspect(self, operations: Iterable[str], *, goods: bool = True) -> None:
        """Each operation once."""
        inspections = [self.inspecting(key, goods=goods) for key in operations]
        require(self.crowd.spread(inspections, self.telling("inspected")), "inspecting")

    def approve(self, operations: Mapping[str, Sale]) -> None:
        """Each operation once, for the whole of its sale."""
        approvals = [self.approving(key, sale.total) for key, sale in operations.items()]
        require(self.crowd.spread(approvals, self.telling("approved")), "approving")

    def withdrawing(self, operation: str) -> Call:
        """The customer does not want it any more."""
        return self._step(operation, "withdraw", "online", {"reason": "the drill is over"})

    def withdraw(self, operations: Iterable[str]) -> int:
        """Take what stays unpaid back off people's worklists; how many could be."""
        calls = [self.withdrawing(key) for key in operations]
        answers = self.crowd.spread(calls, self.telling("withdrawn"))
        return sum(answer.accepted for answer in answers)

    # What came of it.

    def wait_until_posted(self, operations: Collection[str]) -> int:
        """Look until every operation is posted or nothing moves any more; how many are.

        Looks at the ERP first, which is cheap, and asks the product when all is there.
        """
        wanted, deadline, told = set(operations), time.monotonic(), -1
        while True:
            entries = self.erp.entries(wanted)
            booked = {entry["reference"] for entry in entries if entry["state"] == "posted"}
            if len(booked) != told:
                told, deadline = len(booked), time.monotonic() + QUIET_SECONDS
                self.say(f"booked in the ERP: {told} of {len(wanted)}")
            late = time.monotonic() > deadline
            if late or booked == wanted:
                posted = self._posted(operations)
                if late or posted == len(wanted):
                    return posted
            time.sleep(POLL_SECONDS)

    def _posted(self, operations: Iterable[str]) -> int:
        token = self.demo.tokens["manager"]
        calls = [Call("GET", f"/api/v1/returns/{key}/", token) for key in operations]
        states = Counter(
            answer.body.get("state", "unreadable") for answer in self.crowd.spread(calls)
        )
        self.say(", ".join(f"{number} {state}" for state, number in sorted(states.items())))
        return states["posted"]


def require(answers: Sequence[Answer], what: str) -> None:
    """Raises DrillError when a step failed that is not what the drill is about."""
    for answer in answers:
        if not answer.accepted:
            raise DrillError(f"{what} was answered with {answer.status}: {answer.body}")
