"""manage.py sweep: one pass of everything due, or a pass every few seconds."""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any

import pghistory
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection

from payments import recovery
from payments.heartbeat import beat
from reconciliation.scheduling import run_what_is_due
from reconciliation.sweeping import BOOKS_LOOP, LOOPS, MONEY_LOOP, sweep, sweep_books

log = logging.getLogger(__name__)

Pass = Callable[[], dict[str, int]]


class Command(BaseCommand):
    help = (
        "One pass of everything due: unknown payments, expired leases, parked events, "
        "ERP postings, mismatches. Repeated, it also reconciles: nightly, and when asked to."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--every", type=float, metavar="SECONDS", help="repeat until SIGTERM")
        parser.add_argument(
            "--threads", type=int, default=4, help="payments looked at side by side"
        )
        parser.add_argument("--json", action="store_true", help="print the figures as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["every"] is None:
            report = self._once(MONEY_LOOP, partial(sweep, options["threads"]))
            beat(BOOKS_LOOP)
            self._tell(report, as_json=options["json"])
            return
        stop = threading.Event()

        def stopped(_signum: int, _frame: FrameType | None) -> None:
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stopped)
        money, books = partial(recovery.sweep, options["threads"]), sweep_books
        loops: tuple[tuple[str, Pass], ...] = (
            (MONEY_LOOP, money),
            (BOOKS_LOOP, books),
            # A run may last longer than any message of a queue may.
            ("reconcile", run_what_is_due),
        )
        with ThreadPoolExecutor(len(loops)) as pool:
            for name, one_pass in loops:
                pool.submit(self._repeat, name, one_pass, stop, options)

    def _repeat(
        self, name: str, one_pass: Pass, stop: threading.Event, options: dict[str, Any]
    ) -> None:
        """One pass after the other; what a failed pass has missed is found by the next one."""
        while not stop.is_set():
            try:
                report = self._once(name, one_pass)
                if any(report.values()):
                    self._tell(report, as_json=options["json"])
            except Exception:
                log.exception("a pass of %s failed", name)
                connection.close()
            stop.wait(options["every"])

    def _once(self, name: str, one_pass: Pass) -> dict[str, int]:
        with pghistory.context(task=name):
            report = one_pass()
        if name in LOOPS:
            beat(name)
        return report

    def _tell(self, report: dict[str, int], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report))
            return
        done = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in report.items() if n)
        self.stdout.write(done or "Nothing was due.")
