"""The product at work on a few payments, as chance has it, with its times set to the model's.

A tick is four hours: the provider remembers keys for six of them. Between two ticks less than half
of one passes, so that both sides of every comparison fall on the same side as in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from pytest_django import Settings

from payments import dispatch, outbound, recovery, settlement, webhooks
from payments.capabilities import BY_PROVIDER
from payments.models import PaymentTask, ProviderEvent
from payments.outbound import Claim
from returns.states import TASK_FINAL
from tests import factories
from tests.events import signed
from tests.model.payment import WITH_KEYS
from tests.sandboxes import Json, SandboxProvider
from tests.stateful.wire import LOOK_UPS, OURS, goes_wrong
from tests.stateful.workers import Paying, StoppedWorker
from tests.stateful.world import empty_tables
from tests.traces.checker import ASKS_AGAIN, EVENT, TIME
from tests.traces.recorder import Recorder
from tests.workers import let_pass

TICK = timedelta(hours=4)
TICK_SECONDS = int(TICK.total_seconds())
# Whole ticks meet the model's lengths exactly; half of one says on which side.
HALF = TICK / 2
MOMENTS_SECONDS = (3, 40, 16 * 60)

SEND_FAULTS = (
    *("drop_before", "drop_after", "error_before", "error_after", "garbage_after", "late", "late"),
    *("decline", "insufficient_balance", "rate_limit", "pending", "pending", "pending"),
)
LOOK_UP_FAULTS = ("drop_before", "error_before", "garbage_after", "rate_limit")
SAYS = {"pending": "pending", "succeeded": "paid", "failed": "failed"}
MOST_LATE = 2


def set_times(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product and what it believes of the provider, in the model's times."""
    seconds = {"lease_seconds": WITH_KEYS.lease * TICK_SECONDS}
    settings.OUTBOUND_TIMING = {"call_seconds": 12, "margin_seconds": 3, **seconds}
    monkeypatch.setattr(outbound, "KEY_MEMORY_MARGIN", WITH_KEYS.safety * TICK - HALF)
    assert BY_PROVIDER["stripe"].key_memory_seconds == (WITH_KEYS.memory or 0) * TICK_SECONDS
    promise = replace(
        BY_PROVIDER["stripe"],
        lookup_lag_seconds=WITH_KEYS.lag * TICK_SECONDS + int(HALF.total_seconds()),
        max_under_way_seconds=WITH_KEYS.travel * TICK_SECONDS,
    )
    monkeypatch.setitem(BY_PROVIDER, "stripe", promise)


def begin_empty(provider: SandboxProvider) -> None:
    """Nothing has happened yet, here or there."""
    empty_tables()
    provider.reset()


class Run:
    """A few payments from their approval on."""

    def __init__(self, provider: SandboxProvider, chance: Random, payments: int) -> None:
        self.provider, self.chance = provider, chance
        begin_empty(provider)
        self.recorder = Recorder()
        for _ in range(payments):
            factories.reserved()
        provider.know_payments()
        self.recorder.workers_were_at_it()
        self.tasks = list(PaymentTask.objects.order_by("pk").values_list("pk", flat=True))
        self.stopped: dict[int, StoppedWorker] = {}
        self._trouble = chance.choice((0.3, 0.6, 0.9))
        self._passed_seconds = self._within_the_tick_seconds = self._ticks_late = 0

    def take(self, steps: int) -> None:
        """This many things happen, the ones that matter more often than the others."""
        deeds: dict[Callable[[], None], int] = {
            self.work: 6,
            self.stop: 3,
            self.wake: 4,
            self.sweep: 2,
            self.tick: 5,
            self.moment: 6,
            self.arrive: 1,
            self.hear: 4,
            self.bank_moves: 2,
            self.ask_again: 1,
        }
        for deed in self.chance.choices(list(deeds), list(deeds.values()), k=steps):
            deed()

    def work(self) -> None:
        """A worker takes a payment as far as it goes."""
        self._something_goes_wrong()
        dispatch.pay(self._any())
        self.recorder.workers_were_at_it()

    def sweep(self) -> None:
        """Everything that is due is looked after."""
        self._something_goes_wrong()
        recovery.sweep(threads=1)
        self.recorder.workers_were_at_it()

    def stop(self) -> None:
        """A worker stops before its call or after it; one a payment, for the model has two."""
        task = self._any()
        if task in self.stopped:
            return
        self._something_goes_wrong()
        claim = Paying().claim(task)
        if isinstance(claim, Claim):
            outcome = Paying().call(claim) if self.chance.random() < 0.6 else None
            self.stopped[task] = StoppedWorker(Paying(), claim, outcome)
        self.recorder.workers_were_at_it()

    def wake(self) -> None:
        """One that had stopped goes on, or is never heard of again."""
        if not self.stopped:
            return
        worker = self.stopped.pop(self.chance.choice(sorted(self.stopped)))
        if self.chance.random() < 0.7:
            self._something_goes_wrong()
            worker.wake()
        self.recorder.workers_were_at_it()

    def tick(self) -> None:
        """No request is under way for longer than the provider promises."""
        if self.provider.under_way():
            self._ticks_late += 1
            if self._ticks_late > WITH_KEYS.travel:
                self.arrive()
        self._pass(TICK_SECONDS)
        self.recorder.happened_to_all(TIME)

    def moment(self) -> None:
        """Time enough for a look to come due, and too little for the model to notice."""
        seconds = self.chance.choice(MOMENTS_SECONDS)
        if self._within_the_tick_seconds + seconds < 0.9 * HALF.total_seconds():
            self._within_the_tick_seconds += seconds
            self._pass(seconds)
            self.recorder.workers_were_at_it()

    def arrive(self) -> None:
        """What is under way arrives."""
        self._ticks_late = 0
        self.provider.let_arrive()

    def hear(self) -> None:
        """Any event there is, in any order, perhaps again."""
        if events := self.provider.events():
            self._deliver(self.chance.choice(events)["event"])

    def bank_moves(self) -> None:
        """A pending refund ends, or one that had succeeded comes back."""
        moves = {"pending": ["succeeded", "failed"], "succeeded": ["failed"]}
        refunds = [refund for refund in self.provider.ledger() if refund["status"] in moves]
        if refunds:
            refund = self.chance.choice(refunds)
            status = self.chance.choice(moves[refund["status"]])
            self._pass(self.chance.randint(0, 1))
            self.provider.move_refund(refund["refund"], status)
            self.recorder.workers_were_at_it()

    def ask_again(self) -> None:
        task = self._any()
        settlement.ask_again(task_id=task, by=factories.finance())
        self.recorder.happened(task, ASKS_AGAIN)

    def _any(self) -> int:
        """Most often one that has not ended."""
        open_ones = PaymentTask.objects.exclude(state__in=TASK_FINAL).order_by("pk")
        rather = list(open_ones.values_list("pk", flat=True))
        return self.chance.choice(rather if rather and self.chance.random() < 0.8 else self.tasks)

    def _something_goes_wrong(self) -> None:
        self.provider.clear_faults()
        if self.chance.random() < self._trouble:
            modes = self.chance.choices(SEND_FAULTS, k=self.chance.randint(1, 2))
            if len(self.provider.under_way()) >= MOST_LATE:
                modes = [mode for mode in modes if mode != "late"]
            goes_wrong(self.provider, modes, OURS)
        if self.chance.random() < self._trouble / 2:
            goes_wrong(self.provider, [self.chance.choice(LOOK_UP_FAULTS)], LOOK_UPS)

    def _deliver(self, event: Json) -> None:
        """Dated on our clock: the provider's has run ahead by what has passed."""
        body, headers = signed(event | {"created": event["created"] - self._passed_seconds})
        known = ProviderEvent.objects.filter(event_id=event["id"]).exists()
        stored = webhooks.receive(name="stripe", body=body.encode(), headers=headers)
        if not known and stored.standing == ProviderEvent.Standing.APPLIED:
            refund = event["data"]["object"]
            task = PaymentTask.objects.get(wire_key=refund["metadata"]["payment_key"])
            self.recorder.happened(task.pk, EVENT, SAYS[refund["status"]])

    def _pass(self, seconds: int) -> None:
        self._passed_seconds += seconds
        let_pass(seconds)
        self.provider.advance_clock(seconds)
        for worker in self.stopped.values():
            worker.sleep(seconds)
