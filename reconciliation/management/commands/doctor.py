"""Is everything in order, and if not, what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from reconciliation.management.examinations import configuration, database, surroundings, work
from reconciliation.management.examinations.finding import Finding


class Command(BaseCommand):
    help = (
        "Checks configuration, database, queues, provider, ERP and clocks, changes nothing, and "
        "says what to do. The exit code is 1 when something is not in order."
    )
    # They are among the findings.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Report every finding, and leave with exit code 1 when one is not in order."""
        findings = []
        for finding in _findings():
            findings.append(finding)
            if not options["json"]:
                self._tell(finding)
        well = all(finding.ok for finding in findings)
        if options["json"]:
            facts = {"ok": well, "findings": [asdict(finding) for finding in findings]}
            self.stdout.write(json.dumps(facts, indent=2))
        if not well:
            sys.exit(1)

    def _tell(self, finding: Finding) -> None:
        verdict = "ok   " if finding.ok else "WRONG"
        self.stdout.write(f"{verdict}  {finding.about:<28}{finding.found}")
        if not finding.ok:
            self.stdout.write(f"       -> {finding.advice}")


def _findings() -> Iterator[Finding]:
    yield from configuration.examine()
    yield from database.examine()
    if database.is_ready():
        yield from work.examine()
    yield from surroundings.examine()
