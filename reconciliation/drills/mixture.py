"""Everything at once: every story, every fault and every death, judged by the outsiders' books.

Wave after wave of orders goes from the sale to the approval, while workers, web and database are
killed and the sandboxes answer wrongly; what must come of each order is known from its scenario.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from random import Random
from statistics import median, quantiles

from reconciliation.drills.aftermath import Aftermath
from reconciliation.drills.armed_workers import ArmedWorkers
from reconciliation.drills.balance_sheet import weigh
from reconciliation.drills.chaos import DATABASE_KILL, DATABASE_RESTART, Chaos
from reconciliation.drills.evidence import gather, seconds_to_resolve
from reconciliation.drills.insistence import Insistence
from reconciliation.drills.partial_refunds import AMOUNTS
from reconciliation.drills.people import Case, People, Plan
from reconciliation.drills.report import Check, Figure
from reconciliation.drills.sandboxes import Sandbox
from reconciliation.drills.scenario import Story, draw
from reconciliation.drills.stage import TOTALS, Stage
from reconciliation.drills.window import Window

# Client processes at least: four messages leave at the same moment.
WORKERS = 4
# Orders that go through the same step together.
WAVE = 50
LOOK_SECONDS = 1.0
# The longest wait there is: a refusal after a doubt, with the look-ups' back-off behind it. When
# nothing has come to its end for longer than this, nothing will.
QUIET_SECONDS = 240
# Items of finance open and close by themselves with the next pass of the sweep.
BOOKKEEPING_SECONDS = 30
# So many are named when something has gone wrong.
MOST_NAMED = 10
SHARES = [(currency, total) for currency, (total, *_) in AMOUNTS.items()]


def run(stage: Stage, seed: int, workers: int) -> tuple[tuple[Check, ...], tuple[Figure, ...]]:
    """The verdict and the figures of a soak. Raises DrillError when it cannot be carried out."""
    with ExitStack() as stack:
        window = stack.enter_context(Window(stage.demo.database_url))
        stack.callback(stage.provider.forget_faults)
        stack.callback(stage.erp.forget_faults)
        armed = stack.enter_context(ArmedWorkers(stage.demo, workers, stage.size, stage.run))
        lot = Random(f"{seed}:chaos")  # noqa: S311 - a drill must be repeatable
        chaos = stack.enter_context(Chaos(stage.demo, stage.provider, armed, lot, stage.size))
        soak = Soak(stage, window, chaos, armed)
        soak.run(list(_plans(stage, seed)))
        return soak.verdict(), tuple(soak.figures())


def _plans(stage: Stage, seed: int) -> Iterator[Plan]:
    lot = Random(f"{seed}:scenarios")  # noqa: S311 - a drill must be repeatable
    for index in range(stage.size):
        scenario = draw(lot, index, stage.demo.longest_way_seconds)
        totals = SHARES if scenario.story is Story.PARTS else TOTALS
        yield stage.sale(index, *totals[index % len(totals)]), scenario


class Soak:
    """One run of it, from the first sale to the verdict."""

    def __init__(self, stage: Stage, window: Window, chaos: Chaos, armed: ArmedWorkers) -> None:
        self._stage = stage
        self._window = window
        self._chaos = chaos
        self._armed = armed
        self._ask = Insistence(stage.crowd)
        self._people = People(stage, self._ask)
        self._aftermath = Aftermath(stage, self._ask, window)
        self._cases: dict[str, Case] = {}
        self._waiting: list[Case] = []
        if not chaos.owns_database:
            stage.say("the database is not the demo's own: it is not restarted")

    def run(self, plans: Sequence[Plan]) -> None:
        """Carry all plans out, and stay until nothing moves any more."""
        for start in range(0, len(plans), WAVE):
            cases = self._people.carry_out(plans[start : start + WAVE])
            self._cases |= {case.operation: case for case in cases}
            self._look()
            self._tell(f"{min(start + WAVE, len(plans))} of {len(plans)} orders")
        self._chaos.come_to_an_end()
        self._armed.stop()
        self._stage.say("nothing is broken any more; waiting for the rest")
        self._settle()

    def verdict(self) -> tuple[Check, ...]:
        """What must be so; looks until it is, within bounds."""
        deadline = time.monotonic() + BOOKKEEPING_SECONDS
        while True:
            self._evidence = gather(self._stage, self._window, self._cases)
            checks = (
                *weigh(self._evidence),
                Check("orders whose messages became more returns", 0, self._people.split),
                Check("orders with another number of parts than fit", 0, self._people.misfits),
            )
            if all(check.ok for check in checks) or time.monotonic() > deadline:
                return checks
            time.sleep(LOOK_SECONDS)

    def figures(self) -> Iterator[Figure]:
        """What was made, what went wrong on purpose, and how long it took; after the verdict."""
        made = Counter(refund["status"] for refund in self._evidence.refunds)
        yield Figure("refunds made", made["succeeded"])
        yield Figure("refunds that failed at the bank", made["failed"])
        yield from _faults("provider", self._stage.provider)
        yield from _faults("ERP", self._stage.erp)
        yield from _counted("", self._aftermath.done)
        harm, struck = self._chaos.done, self._armed.struck()
        yield Figure("database restarts", harm[DATABASE_RESTART] + harm[DATABASE_KILL])
        killed = [*_named(harm, "killed"), *_named(struck, "kill ")]
        yield Figure("programs and workers killed", sum(killed) - harm[DATABASE_KILL])
        yield from _counted("  ", harm)
        yield from _counted("  at a fail point: ", struck)
        yield Figure("requests that clients sent again", self._ask.repeated)
        yield from _times(seconds_to_resolve(self._stage, self._window))

    def _look(self) -> None:
        self._waiting = self._aftermath.look(self._cases)

    def _settle(self) -> None:
        deadline = time.monotonic() + QUIET_SECONDS
        while self._waiting and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            before = len(self._waiting)
            self._look()
            if len(self._waiting) != before:
                deadline = time.monotonic() + QUIET_SECONDS
                self._tell("resolving")
        for case in self._waiting[:MOST_NAMED]:
            self._stage.say(f"order {case.sale.number}, {case.operation} is not at its end")

    def _tell(self, what: str) -> None:
        broken = self._chaos.done.total() + self._armed.struck().total()
        self._stage.say(
            f"{what}; {len(self._waiting)} of {len(self._cases)} returns not at their end yet, "
            f"{broken} times something was killed, frozen or restarted"
        )


def _faults(where: str, sandbox: Sandbox) -> Iterator[Figure]:
    hit = sandbox.faults_hit()
    yield Figure(f"faults that hit at the {where}", hit.total())
    yield from _counted("  ", hit)


def _named(counts: Counter[str], word: str) -> list[int]:
    return [times for name, times in counts.items() if word in name]


def _counted(heading: str, counts: Counter[str]) -> Iterator[Figure]:
    for name, times in sorted(counts.items()):
        yield Figure(f"{heading}{name}", times)


def _times(seconds: Sequence[float]) -> Iterator[Figure]:
    """Time to resolve, approval to credit: median, 95 % and the longest."""
    if seconds:
        hundredths = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds
        yield Figure("seconds to resolve, median", round(median(seconds), 1))
        yield Figure("seconds to resolve, 95 %", round(hundredths[94 % len(hundredths)], 1))
        yield Figure("seconds to resolve, longest", round(max(seconds), 1))
