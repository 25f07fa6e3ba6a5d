"""The product at work on a few rows, as chance has it, with its times set to the model's.

Between two ticks less than half of one passes, and what is compared with a counterpart's promise
lies half a tick from the model's: so every comparison ends as it does in the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import ClassVar

from payments.outbound import Claim
from payments.outcomes import Capabilities
from returns.states import TASK_FINAL
from tests.model.rows import Times
from tests.sandboxes import Sandbox
from tests.stateful.wire import goes_wrong
from tests.stateful.workers import Phases, StoppedWorker
from tests.stateful.world import empty_tables
from tests.traces.checker import ASKS_AGAIN, TIME
from tests.traces.recorder import Books, Recorder
from tests.workers import let_pass

# The provider remembers keys for a day, which is six of the model's ticks.
TICK_SECONDS = 4 * 60 * 60
HALF_SECONDS = TICK_SECONDS // 2
# Looks come due within these; many a run needs more of them than fit between two ticks.
MOMENTS_SECONDS = (3, 40, 16 * 60)
MOST_LATE = 2

Deeds = dict[Callable[[], None], int]


def timing(times: Times) -> dict[str, int]:
    """The product's own setting, with a lease of the model's length."""
    return {
        "lease_seconds": times.lease * TICK_SECONDS,
        "call_seconds": 12,
        "margin_seconds": 3,
    }


def begin_empty(counterpart: Sandbox) -> None:
    """Nothing has happened yet, here or there."""
    empty_tables()
    counterpart.reset()


class Run(ABC):
    """A few rows from their beginning on; the counterpart's faults and all that may come between.

    `sends_to` and `asks_at` are the requests that go wrong, `send_faults` and `ask_faults` how.
    """

    times: Times
    phases: Phases
    books: Books
    sends_to: ClassVar[tuple[str, ...]]
    asks_at: ClassVar[str]
    send_faults: ClassVar[tuple[str, ...]]
    ask_faults: ClassVar[tuple[str, ...]]

    def __init__(
        self, counterpart: Sandbox, chance: Random, capabilities: Capabilities, rows: int
    ) -> None:
        self.counterpart, self.chance = counterpart, chance
        begin_empty(counterpart)
        self.recorder = Recorder(self.books, capabilities)
        self.begin(rows)
        self.recorder.workers_were_at_it()
        self.passed_seconds = self._moments_seconds = self._ticks_late = 0
        self._stopped: dict[int, StoppedWorker] = {}
        self._trouble = chance.choice((0.4, 0.7, 0.95))

    @abstractmethod
    def begin(self, rows: int) -> None:
        """Make this many rows."""

    @abstractmethod
    def work_on(self, row: int) -> None:
        """The product's worker takes a row as far as it goes."""

    @abstractmethod
    def look_after_all(self) -> None:
        """The product's sweep."""

    @abstractmethod
    def somebody_asks(self, row: int) -> None:
        """A person wants another look."""

    def is_over(self) -> bool:
        """Whether nothing can happen any more that a trace would show."""
        return False

    def deeds(self) -> Deeds:
        """What may happen, and how often beside the others."""
        return {
            self.work: 6,
            self.stop: 3,
            self.wake: 4,
            self.sweep: 2,
            self.tick: 5,
            self.moment: 6,
            self.arrive: 1,
            self.ask_again: 1,
        }

    def take(self, steps: int) -> None:
        """At most this many things happen."""
        deeds = self.deeds()
        for deed in self.chance.choices(list(deeds), list(deeds.values()), k=steps):
            if not self.is_over():
                deed()

    def work(self) -> None:
        self._something_goes_wrong()
        self.work_on(self._any())
        self.recorder.workers_were_at_it()

    def sweep(self) -> None:
        """Everything that is due is looked after."""
        self._something_goes_wrong()
        self.look_after_all()
        self.recorder.workers_were_at_it()

    def stop(self) -> None:
        """A worker stops before its call or after it; one a row, for the model has two."""
        row = self._any()
        if row in self._stopped:
            return
        self._something_goes_wrong()
        claim = self.phases.claim(row)
        if isinstance(claim, Claim):
            outcome = self.phases.call(claim) if self.chance.random() < 0.6 else None
            self._stopped[row] = StoppedWorker(self.phases, claim, outcome)
        self.recorder.workers_were_at_it()

    def wake(self) -> None:
        """One that had stopped goes on, or is never heard of again."""
        if not self._stopped:
            return
        worker = self._stopped.pop(self.chance.choice(sorted(self._stopped)))
        if self.chance.random() < 0.7:
            self._something_goes_wrong()
            worker.wake()
        self.recorder.workers_were_at_it()

    def tick(self) -> None:
        """No request is under way for longer than the counterpart promises."""
        if self.counterpart.under_way():
            self._ticks_late += 1
            if self._ticks_late > self.times.travel:
                self.arrive()
        self.let_pass(TICK_SECONDS)
        self.recorder.happened_to_all(TIME)

    def moment(self) -> None:
        """Time enough for a look to come due, and too little for the model to notice."""
        seconds = self.chance.choice(MOMENTS_SECONDS)
        if self._moments_seconds + seconds < 0.9 * HALF_SECONDS:
            self._moments_seconds += seconds
            self.let_pass(seconds)
            self.recorder.workers_were_at_it()

    def arrive(self) -> None:
        """What is under way arrives."""
        self._ticks_late = 0
        self.counterpart.let_arrive()

    def ask_again(self) -> None:
        row = self._any()
        self.somebody_asks(row)
        self.recorder.happened(row, ASKS_AGAIN)

    def let_pass(self, seconds: int) -> None:
        """For everybody alike."""
        self.passed_seconds += seconds
        let_pass(seconds)
        self.counterpart.advance_clock(seconds)
        for worker in self._stopped.values():
            worker.sleep(seconds)

    def _any(self) -> int:
        """Most often one that has not ended."""
        rows = self.books.rows._default_manager.order_by("pk")
        still_open = [row.pk for row in rows if row.state not in TASK_FINAL]
        rather_open = still_open and self.chance.random() < 0.8
        row: int = self.chance.choice(still_open if rather_open else [row.pk for row in rows])
        return row

    def _something_goes_wrong(self) -> None:
        self.counterpart.clear_faults()
        if self.chance.random() < self._trouble:
            modes = self.chance.choices(self.send_faults, k=self.chance.randint(1, 2))
            if len(self.counterpart.under_way()) >= MOST_LATE:
                modes = [mode for mode in modes if mode != "late"]
            for mode in modes:
                goes_wrong(self.counterpart, [mode], self.chance.choice(self.sends_to))
        if self.chance.random() < self._trouble / 2:
            goes_wrong(self.counterpart, [self.chance.choice(self.ask_faults)], self.asks_at)
