"""One order in an empty world, and the actors that can act on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from django.contrib.auth.models import User

from payments import dispatch, outbound, recovery, webhooks
from payments.approval import approve
from payments.models import PaymentTask
from returns.models import RefundOperation
from returns.order_facts import PastRefund
from returns.return_request import Item
from tests import factories
from tests.events import signed
from tests.explorer.actors import Actor, turn
from tests.sandboxes import SandboxProvider
from tests.stateful.world import empty_tables
from tests.workers import let_pass

PRICE_MINOR = 10_000
# The queue has had its time: a payment that nobody has taken is the sweep's as well.
QUEUED_SECONDS = 60


class Scene:
    """Opened again for every interleaving. `cast` names the actors, as in "worker+webhook"."""

    def __init__(
        self,
        provider: SandboxProvider,
        clock: pytest.MonkeyPatch,
        cast: str,
        fault: str = "",
    ) -> None:
        self.provider = provider
        self.cast = cast.split("+")
        self._fault = fault
        self._slept_seconds = 0.0
        self._returns: list[RefundOperation] = []
        awake = outbound.boot_seconds
        clock.setattr(outbound, "boot_seconds", lambda: awake() + self._slept_seconds)

    def open(self) -> Sequence[Actor]:
        """A new order with its returns, and the whole cast before its first step."""
        empty_tables()
        self.provider.reset()
        self._slept_seconds = 0
        self._returns = self._make_returns()
        self.provider.know_payments()
        let_pass(QUEUED_SECONDS)
        if self._fault:
            self.provider.fault(self._fault)
        return [self._actor(role, number) for number, role in enumerate(self.cast, 1)]

    def _make_returns(self) -> list[RefundOperation]:
        """One whose money is reserved already, unless its approval belongs to the scene."""
        if "rival" in self.cast:
            return self._two_that_do_not_both_fit()
        undecided = "approver" in self.cast
        return [factories.inspected() if undecided else factories.reserved()]

    def _two_that_do_not_both_fit(self) -> list[RefundOperation]:
        """An old refund has left enough of the order for either of them."""
        order = factories.OrderFactory.create(
            lines=[factories.line("shirt", PRICE_MINOR, quantity=2)],
            past_refunds=[PastRefund("card", "earlier", PRICE_MINOR // 2)],
        )
        items = [Item("shirt", units=(number,)) for number in (1, 2)]
        return [factories.inspected(order, items=(item,)) for item in items]

    def _actor(self, role: str, number: int) -> Actor:
        verbs: dict[str, Callable[[], object]] = {
            "approver": partial(self._approve, self._returns[0], self._manager(number)),
            "rival": partial(self._approve, self._returns[-1], self._manager(number)),
            "worker": self._work,
            "sweep": self._sweep,
            "webhook": self._hear,
            "clock": self._let_lease_end,
        }
        ready = {"worker": PaymentTask.objects.exists, "webhook": self._has_news}
        return Actor(f"{role}{number}", verbs[role], ready.get(role, lambda: True))

    def _manager(self, number: int) -> User:
        return factories.person(f"manager-{number}", "manager")

    def _approve(self, operation: RefundOperation, by: User) -> None:
        approve(operation_key=operation.operation_key, by=by, amount_minor=PRICE_MINOR)

    def _work(self) -> None:
        dispatch.pay(PaymentTask.objects.get().pk)

    def _sweep(self) -> None:
        """What `recovery.sweep` does, in this thread."""
        due = recovery.due_payments()
        turn("due rows read")
        for task_id in due:
            dispatch.pay(task_id)
        webhooks.apply_parked()

    def _has_news(self) -> bool:
        return bool(self.provider.events())

    def _hear(self) -> None:
        """The provider's first event, in a delivery that it signs."""
        body, headers = signed(self.provider.events()[0]["event"])
        webhooks.receive(name="stripe", body=body.encode(), headers=headers)

    def _let_lease_end(self) -> None:
        """Time passes for everybody, while a worker stands still with its lease."""
        seconds = outbound.timing().lease_seconds + 1
        self._slept_seconds += seconds
        let_pass(seconds)
