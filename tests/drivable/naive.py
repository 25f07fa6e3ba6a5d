"""A refund system of the kind that is written every day. It checks before it acts.

Nothing in it is careless: it refuses what it has seen paid, it never approves more than is left, it
retries what failed. It only believes what it read a moment ago, and takes silence for a no.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from uuid import uuid4

from tests.drivable.driver import FAILED, PAID, REFUSED, WAITING

# A person's check waits for the others to have checked as well; longer than this it hangs.
TOGETHER_SECONDS = 30


@dataclass
class _Refund:
    order: str
    part_minor: int
    amount_minor: int = 0
    status: str = WAITING
    approved: bool = False


class _Provider:
    """Pays what it is asked, once per idempotency key."""

    def __init__(self) -> None:
        self.paid: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.loses_answer_of: set[str] = set()

    def refund(self, order: str, amount_minor: int, key: str) -> None:
        """Raises TimeoutError when the answer is lost; the money has moved all the same."""
        self.paid[order].setdefault(key, amount_minor)
        if order in self.loses_answer_of:
            self.loses_answer_of.remove(order)
            raise TimeoutError


class NaiveRefunds:
    """The whole system, in memory."""

    def __init__(self) -> None:
        self._provider = _Provider()
        self._captured: dict[str, int] = {}
        self._refunds: dict[str, _Refund] = {}
        # Where simultaneous requests have all looked and none has acted yet.
        self._all_have_checked: threading.Barrier | None = None

    def __enter__(self) -> NaiveRefunds:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._refunds.clear()

    def sell(self, captured_minor: int) -> str:
        order = uuid4().hex
        self._captured[order] = captured_minor
        return order

    def submit(self, order: str, *, channel: str, message: str, part_minor: int = 0) -> str | None:
        """Refused only when the goods have been refunded already."""
        refunded = any(r.status == PAID for r in self._of(order) if not r.part_minor)
        self._meanwhile()
        if refunded and not part_minor:
            return None
        name = uuid4().hex
        self._refunds[name] = _Refund(order, part_minor)
        return name

    def approve(self, refund: str, amount_minor: int) -> bool:
        """Granted while enough of the order is left."""
        wanted = self._refunds[refund]
        left_minor = self._captured[wanted.order] - self._paid_minor(wanted.order)
        self._meanwhile()
        if amount_minor > left_minor:
            wanted.status = REFUSED
            return False
        wanted.amount_minor, wanted.approved, wanted.status = amount_minor, True, WAITING
        return True

    def run_workers(self) -> None:
        for refund in self._refunds.values():
            if refund.approved and refund.status == WAITING:
                self._pay(refund)

    def _pay(self, refund: _Refund) -> None:
        try:
            self._provider.refund(refund.order, refund.amount_minor, key=uuid4().hex)
            refund.status = PAID
        except TimeoutError:
            refund.status = FAILED

    def at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        self._all_have_checked = threading.Barrier(len(calls))
        try:
            with ThreadPoolExecutor(len(calls)) as pool:
                return [future.result() for future in [pool.submit(call) for call in calls]]
        finally:
            self._all_have_checked = None

    def lose_the_next_answer(self, order: str) -> None:
        self._provider.loses_answer_of.add(order)

    def money_outs(self, order: str) -> list[int]:
        return list(self._provider.paid[order].values())

    def state(self, refund: str) -> str:
        return self._refunds[refund].status

    def _of(self, order: str) -> list[_Refund]:
        return [refund for refund in self._refunds.values() if refund.order == order]

    def _paid_minor(self, order: str) -> int:
        return sum(refund.amount_minor for refund in self._of(order) if refund.status == PAID)

    def _meanwhile(self) -> None:
        """Time passes between the check and the act, as it does in every system."""
        if self._all_have_checked is not None:
            self._all_have_checked.wait(TOGETHER_SECONDS)
