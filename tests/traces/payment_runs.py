"""Runs of payments: the provider's refunds end or come back, its events arrive, rounds follow."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from pytest_django import Settings

from payments import dispatch, outbound, recovery, settlement, webhooks
from payments.capabilities import BY_PROVIDER, capabilities_of
from payments.models import PaymentTask, ProviderEvent
from returns.errors import WrongState
from returns.models import RefundOperation
from returns.states import OperationState
from tests import factories
from tests.events import signed
from tests.model.payment import WITH_KEYS
from tests.sandboxes import Json, SandboxProvider
from tests.stateful.wire import LOOK_UPS, OURS
from tests.stateful.workers import Paying
from tests.traces.checker import EVENT
from tests.traces.recorder import PAYMENTS
from tests.traces.runs import HALF_SECONDS, TICK_SECONDS, Deeds, Run, timing

SAYS = {"pending": "pending", "succeeded": "paid", "failed": "failed"}
BANK_MOVES = {"pending": ("succeeded", "failed"), "succeeded": ("failed",)}


def set_payment_times(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product and what it believes of the provider, in the model's times."""
    settings.OUTBOUND_TIMING = timing(WITH_KEYS)
    margin = timedelta(seconds=WITH_KEYS.safety * TICK_SECONDS - HALF_SECONDS)
    monkeypatch.setattr(outbound, "KEY_MEMORY_MARGIN", margin)
    assert BY_PROVIDER["stripe"].key_memory_seconds == (WITH_KEYS.memory or 0) * TICK_SECONDS
    promise = replace(
        BY_PROVIDER["stripe"],
        lookup_lag_seconds=WITH_KEYS.lag * TICK_SECONDS + HALF_SECONDS,
        max_under_way_seconds=WITH_KEYS.travel * TICK_SECONDS,
    )
    monkeypatch.setitem(BY_PROVIDER, "stripe", promise)


class PaymentRun(Run):
    """A few payments from their approval on."""

    times, phases, books = WITH_KEYS, Paying(), PAYMENTS
    sends_to, asks_at = (OURS,), LOOK_UPS
    send_faults = (
        *("drop_before", "drop_after", "error_before", "error_after", "garbage_after"),
        *("late", "late", "decline", "insufficient_balance", "rate_limit"),
        *("pending", "pending", "pending"),
    )
    ask_faults = ("drop_before", "error_before", "garbage_after", "rate_limit")

    def __init__(self, provider: SandboxProvider, chance: Random, payments: int) -> None:
        self.provider = provider
        super().__init__(provider, chance, capabilities_of("stripe"), payments)

    def begin(self, rows: int) -> None:
        for _ in range(rows):
            factories.reserved()
        self.provider.know_payments()

    def work_on(self, row: int) -> None:
        dispatch.pay(row)

    def look_after_all(self) -> None:
        recovery.sweep(threads=1)

    def somebody_asks(self, row: int) -> None:
        settlement.ask_again(task_id=row, by=factories.finance())

    def deeds(self) -> Deeds:
        return super().deeds() | {self.hear: 5, self.bank_moves: 2, self.approve_again: 2}

    def hear(self) -> None:
        """Any event there is, in any order, perhaps again."""
        if events := self.provider.events():
            self._deliver(self.chance.choice(events)["event"])

    def bank_moves(self) -> None:
        """A pending refund ends, or one that had succeeded comes back."""
        refunds = [refund for refund in self.provider.ledger() if refund["status"] in BANK_MOVES]
        if refunds:
            refund = self.chance.choice(refunds)
            self.let_pass(self.chance.randint(0, 1))
            status = self.chance.choice(BANK_MOVES[refund["status"]])
            self.provider.move_refund(refund["refund"], status)
            self.recorder.workers_were_at_it()

    def approve_again(self) -> None:
        """What was declined or came back is owed again; unless the provider says otherwise."""
        owed = list(RefundOperation.objects.filter(state=OperationState.APPROVED).order_by("pk"))
        if not owed:
            return
        with suppress(WrongState):
            factories.approved_by(factories.second_manager(), self.chance.choice(owed))
        self.recorder.workers_were_at_it()

    def _deliver(self, event: Json) -> None:
        """Dated on our clock: the provider's has run ahead by what has passed."""
        body, headers = signed(event | {"created": event["created"] - self.passed_seconds})
        known = ProviderEvent.objects.filter(event_id=event["id"]).exists()
        stored = webhooks.receive(name="stripe", body=body.encode(), headers=headers)
        if not known and stored.standing == ProviderEvent.Standing.APPLIED:
            refund = event["data"]["object"]
            task = PaymentTask.objects.get(wire_key=refund["metadata"]["payment_key"])
            self.recorder.happened(task.pk, EVENT, SAYS[refund["status"]])
