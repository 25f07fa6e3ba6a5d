"""What a refund system must let a scenario do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

PAID, FAILED, REFUSED, WAITING = "paid", "failed", "refused", "waiting"


class RefundSystem(Protocol):
    """A system under test. Amounts are minor units of one currency; an order has one payment."""

    def sell(self, captured_minor: int) -> str:
        """A new order for one piece of goods, its payment captured at the provider; its number."""

    def submit(self, order: str, *, channel: str, message: str, part_minor: int = 0) -> str | None:
        """A customer's message: the goods come back, or with `part_minor` a separate allowance.

        Returns the name of the refund that it led to, one it may share with other messages, or
        None when the system refuses.
        """

    def approve(self, refund: str, amount_minor: int) -> bool:
        """Somebody who may says yes to this amount; whether the system accepts it."""

    def at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Make the calls as simultaneously as the system can be made to see them."""

    def run_workers(self) -> None:
        """Until nothing is left to do, however much waiting that would take."""

    def lose_the_next_answer(self, order: str) -> None:
        """The provider carries out the next payment of the order, and its answer never arrives."""

    def money_outs(self, order: str) -> list[int]:
        """The amounts that left the provider for an order, by the provider's own books."""

    def state(self, refund: str) -> str:
        """`paid`, `failed` (money certainly did not move), `refused`, or `waiting`."""
