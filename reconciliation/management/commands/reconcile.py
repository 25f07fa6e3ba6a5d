"""One reconciliation run."""

from __future__ import annotations

import json
import sys
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from payments.providers.base import NotListed
from reconciliation.collecting import collect
from reconciliation.erp.base import ErpRefused, ErpUnknown
from reconciliation.matching.scope import Window
from reconciliation.models import ReconciliationRun
from reconciliation.runs import Say, reconcile
from returns.errors import RefundDeskError

EPILOG = """
Lists what provider and ERP have for these days, compares it with our own payments, opens what
differs and closes what has become right. The exit code is 1 when the run failed, or when some cent
is explained by nothing in the queue; open items alone are no failure.
"""
_FIGURES = ("expected_minor", "found_minor", "explained_minor", "under_way_minor")


class Command(BaseCommand):
    help = "One reconciliation run over a window of days (default: the last 30)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = EPILOG
        for name in ("from", "to"):
            parser.add_argument(
                f"--{name}", type=date.fromisoformat, metavar="DAY", help="YYYY-MM-DD, included"
            )
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run, report, and leave with exit code 1 unless every cent is explained."""
        today = timezone.now().astimezone(ZoneInfo(settings.STORE_TIME_ZONE)).date()
        last = options["to"] or today
        first = options["from"] or last - timedelta(days=settings.RECONCILE_DAYS)
        try:
            run = reconcile(first=first, last=last, by=None, collect=self._collect)
        except (NotListed, ErpRefused, ErpUnknown, RefundDeskError) as error:
            raise CommandError(f"Not reconciled: {error}") from error
        report = _report(run)
        self.stdout.write(json.dumps(report, indent=2) if options["json"] else _in_words(report))
        if report["unexplained"]:
            sys.exit(1)

    def _collect(self, window: Window, say: Say) -> None:
        def tell(stage: str) -> None:
            self.stderr.write(stage)
            say(stage)

        collect(window, tell)
        self.stderr.write("comparing")


def _report(run: ReconciliationRun) -> dict[str, Any]:
    totals = [
        {
            **{name: str(getattr(total, name)) for name in ("side", "day", "currency")},
            **{name: getattr(total, name) for name in (*_FIGURES, "unexplained_minor")},
        }
        for total in run.totals.order_by("day", "currency", "side")
    ]
    return {
        "run": run.pk,
        "from": run.first.isoformat(),
        "to": run.last.isoformat(),
        "opened": run.opened,
        "closed": run.closed,
        "unexplained": sum(total["unexplained_minor"] != 0 for total in totals),
        "totals": totals,
    }


def _in_words(report: dict[str, Any]) -> str:
    lines = [
        f"{total['day']} {total['currency']} {total['side']:<8} "
        + ", ".join(f"{name.removesuffix('_minor')} {total[name]}" for name in _FIGURES)
        + (f", UNEXPLAINED {total['unexplained_minor']}" if total["unexplained_minor"] else "")
        for total in report["totals"]
    ]
    verdict = "every cent is explained" if not report["unexplained"] else "not all is explained"
    lines.append(f"{report['opened']} opened, {report['closed']} closed; {verdict}")
    return "\n".join(lines)
