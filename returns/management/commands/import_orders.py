"""Take orders in from a file."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from returns.importing import canonical, tau_retail
from returns.importing.reading import CANONICAL, TAU_RETAIL, Broken, NotReadable
from returns.importing.rows import Row
from returns.order_import import (
    CREATED,
    EXTENDED,
    REFUSED,
    UNCHANGED,
    Imported,
    import_orders,
    importer,
)
from returns.ordering import clean_number
from returns.permissions import may

PROGRESS_SECONDS = 1.0
Rows = Iterator[Row | Broken]

EPILOG = """
canonical: the order bodies of the API, each with its "number": a JSON array, an object keyed by
number, or JSON lines (one order a line; read line by line, so any size fits). tau-retail: the
retail orders of the tau-bench benchmark. Orders that are there already are compared; running the
same import again changes nothing. The exit code is 1 when an order was refused.
"""


class Command(BaseCommand):
    help = "Takes orders, their lines and their tenders in from a file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = EPILOG
        parser.add_argument("file", type=Path)
        parser.add_argument("--format", choices=(CANONICAL, TAU_RETAIL), default=CANONICAL)
        parser.add_argument(
            "--customers", type=Path, help="names and e-mail addresses (tau-retail only)"
        )
        parser.add_argument(
            "--as",
            dest="username",
            help="the account that stands behind the import (default: the product's own)",
        )
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, report, and leave with exit code 1 when an order was refused."""
        rows = _rows(options["file"], options["format"], options["customers"])
        by = _account(options["username"])
        counts: Counter[str] = Counter()
        refused: list[Imported] = []
        tell = _progress(self.stderr.write)
        try:
            for order in import_orders(rows, by):
                counts[order.outcome] += 1
                tell(counts.total())
                if order.outcome != REFUSED:
                    continue
                refused.append(order)
                if not options["json"]:
                    self.stdout.write(_refusal(order))
        except NotReadable as error:
            raise CommandError(str(error)) from error
        self._report(counts, refused, as_json=options["json"])
        if refused:
            sys.exit(1)

    def _report(self, counts: Counter[str], refused: list[Imported], *, as_json: bool) -> None:
        outcomes = {
            "imported": counts[CREATED],
            "extended": counts[EXTENDED],
            "unchanged": counts[UNCHANGED],
        }
        if as_json:
            report = {**outcomes, "refused": [asdict(order) for order in refused]}
            self.stdout.write(json.dumps(report, indent=2, default=str))
        else:
            figures = {**outcomes, "refused": len(refused)}
            self.stdout.write(", ".join(f"{number} {name}" for name, number in figures.items()))


def _rows(path: Path, file_format: str, customers: Path | None) -> Rows:
    if file_format == TAU_RETAIL:
        return tau_retail.rows(path, customers)
    if customers:
        raise CommandError("--customers goes with --format tau-retail; orders name their customer.")
    return canonical.rows(path)


def _account(username: str | None) -> User:
    user = User.objects.filter(username=username).first() if username else importer()
    if user is None:
        raise CommandError(f"There is no account {username}.")
    if not may(user, "confirm_order"):
        raise CommandError(f"{user.username} may not take orders in; use an integration account.")
    return user


def _refusal(order: Imported) -> str:
    told = order.number in ("", clean_number(order.place))
    name = order.place if told else f"{order.place} ({order.number})"
    return f"refused  {name}: {order.reason}"


def _progress(write: Callable[[str], Any]) -> Callable[[int], None]:
    """Says now and then how far the import is."""
    last = time.monotonic()

    def tell(orders: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            write(f"{orders} orders read")

    return tell
