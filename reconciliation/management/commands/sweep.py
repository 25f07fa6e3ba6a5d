"""manage.py sweep: one pass of everything due, or a pass every few seconds."""

from __future__ import annotations

import json
import signal
import threading
from types import FrameType
from typing import Any

import pghistory
from django.core.management.base import BaseCommand, CommandParser
from django.db import OperationalError, connection

from payments.heartbeat import beat
from reconciliation.sweeping import sweep


class Command(BaseCommand):
    help = (
        "One pass of everything due: unknown payments, expired leases, parked events, "
        "ERP postings, mismatches."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--every", type=float, metavar="SECONDS", help="repeat until SIGTERM")
        parser.add_argument(
            "--threads", type=int, default=4, help="payments looked at side by side"
        )
        parser.add_argument("--json", action="store_true", help="print the figures as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["every"] is None:
            self._tell(self._once(options["threads"]), as_json=options["json"])
            return
        stop = threading.Event()

        def stopped(_signum: int, _frame: FrameType | None) -> None:
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stopped)
        while not stop.is_set():
            report = self._until_the_database_answers(options["threads"])
            if any(report.values()):
                self._tell(report, as_json=options["json"])
            stop.wait(options["every"])

    def _once(self, threads: int) -> dict[str, int]:
        with pghistory.context(task="sweep"):
            report = sweep(threads)
        beat("sweep")
        return report

    def _until_the_database_answers(self, threads: int) -> dict[str, int]:
        """A pass, or nothing while the database is away; the next pass finds what was missed."""
        try:
            return self._once(threads)
        except OperationalError as error:
            self.stderr.write(f"the database does not answer: {error}")
            connection.close()
            return {}

    def _tell(self, report: dict[str, int], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report))
            return
        done = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in report.items() if n)
        self.stdout.write(done or "Nothing was due.")
