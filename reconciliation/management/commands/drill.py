"""Rehearse a failure against the running demo."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from reconciliation.drills import (
    dropped_connection,
    duplicate_messages,
    killed_worker,
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
            "--workers", type=int, default=0, help="client processes (default: what a drill needs)"
        )
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Carry the drill out, report, and leave with exit code 1 when something was wrong."""
        names = list(DRILLS) if options["name"] == ALL else [options["name"]]
        if options["orders"] < 1:
            raise CommandError("--orders must be at least 1.")
        reports = []
        try:
            demo = Demo.running_in(settings.DATA_DIR)
            for name in names:
                reports.append(self._rehearse(demo, name, options["orders"], options["workers"]))
                if not options["json"]:
                    self.stdout.write(reports[-1].table())
        except DrillError as error:
            raise CommandError(str(error)) from error
        fine = all(report.ok for report in reports)
        if options["json"]:
            facts = {"ok": fine, "drills": [report.facts() for report in reports]}
            self.stdout.write(json.dumps(facts, indent=2))
        if not fine:
            sys.exit(1)

    def _rehearse(self, demo: Demo, name: str, orders: int, workers: int) -> Report:
        drill = DRILLS[name]
        processes = max(workers, drill.PROCESSES)
        began = time.monotonic()
        with Crowd(demo.web, processes) as crowd:
            stage = Stage(demo, crowd, orders, lambda line: self.stderr.write(f"{name}: {line}"))
            checks = drill.run(stage)
        return Report(name, orders, processes, time.monotonic() - began, checks)
