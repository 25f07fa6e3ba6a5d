"""Rehearse a failure against the running demo."""

from __future__ import annotations

import json
import secrets
import sys
import time
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from reconciliation.drills import (
    dropped_connection,
    duplicate_messages,
    killed_worker,
    mixture,
    partial_refunds,
    two_agents,
)
from reconciliation.drills.crowd import Crowd
from reconciliation.drills.place import Demo, DrillError
from reconciliation.drills.report import Report
from reconciliation.drills.stage import Stage

DRILLS = {
    "duplicate-messages": duplicate_messages,
    "two-agents": two_agents,
    "partial-refunds": partial_refunds,
    "dropped-connection": dropped_connection,
    "killed-worker": killed_worker,
}
ALL = "all"
ORDERS = 50

EPILOG = """
`all` is the soak: duplicate messages, two channels, parts that only partly fit, at once, while the
sandboxes answer wrongly in every way they can, and programs, workers and the database are killed,
frozen and restarted. --seed draws the orders' scenarios, their faults and the order of the deaths
again; the moments are chance. --workers N starts N client processes (at least 4) and beside them N
extra workers of the product, which die, freeze or stall at its fail points and are started again.

Needs `make demo` running on the same DATA_DIR. The orders are the drill's own. Nothing of a drill
that was carried out waits for anybody afterwards: partial-refunds ends by withdrawing the five
returns of each order that did not fit. What counts are the provider's ledger and the ERP's entries,
read from the sandboxes themselves. The exit code is 1 when a figure is not what it must be.
"""


class Command(BaseCommand):
    help = "Rehearses one failure with real processes and reports what left the provider."
    # The drill stands outside: the product that it talks to has made these checks.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = EPILOG
        parser.add_argument("name", choices=[*DRILLS, ALL])
        parser.add_argument("--orders", type=int, default=ORDERS, help=f"default {ORDERS}")
        parser.add_argument(
            "--workers",
            type=int,
            default=0,
            help="client processes (default: what a drill needs); for `all` also as many extra "
            "workers of the product that die at its fail points",
        )
        parser.add_argument("--seed", type=int, help="of `all` (default: drawn, and printed)")
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Carry the drill out, report, and leave with exit code 1 when something was wrong."""
        name, orders, workers = options["name"], options["orders"], options["workers"]
        if orders < 1:
            raise CommandError("--orders must be at least 1.")
        try:
            demo = Demo.running_in(settings.DATA_DIR)
            if name == ALL:
                report = self._soak(demo, orders, workers or mixture.WORKERS, options["seed"])
            else:
                report = self._rehearse(demo, name, orders, workers)
        except DrillError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(report.facts(), indent=2))
        else:
            self.stdout.write(report.table())
        if not report.ok:
            sys.exit(1)

    def _rehearse(self, demo: Demo, name: str, orders: int, workers: int) -> Report:
        drill = DRILLS[name]
        processes = max(workers, drill.PROCESSES)
        began = time.monotonic()
        with Crowd(demo.web, processes) as crowd:
            checks = drill.run(Stage(demo, crowd, orders, partial(self._say, name)))
        return Report(name, orders, processes, time.monotonic() - began, checks)

    def _soak(self, demo: Demo, orders: int, workers: int, seed: int | None) -> Report:
        seed = secrets.randbelow(10**6) if seed is None else seed
        self._say(ALL, f"seed {seed}")
        processes = max(workers, mixture.WORKERS)
        began = time.monotonic()
        with Crowd(demo.web, processes) as crowd:
            stage = Stage(demo, crowd, orders, partial(self._say, ALL))
            checks, figures = mixture.run(stage, seed, workers)
        seconds = time.monotonic() - began
        return Report(ALL, orders, processes, seconds, checks, figures, seed)

    def _say(self, name: str, line: str) -> None:
        self.stderr.write(f"{name}: {line}")
