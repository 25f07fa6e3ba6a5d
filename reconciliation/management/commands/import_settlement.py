"""Take a settlement file in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from reconciliation.models import SettlementImport
from reconciliation.statement_import import import_file
from reconciliation.statements.reading import NotReadable
from returns.errors import RefundDeskError
from returns.order_import import importer

EPILOG = """
The source says how the file is written and whose account it is about (settings:
SETTLEMENT_SOURCES). A file is taken in as a whole or not at all; lines that are known already, from
this file or another one, change nothing. Lines that cannot be used are reported with their numbers;
the exit code is then 1.
"""


class Command(BaseCommand):
    help = "Takes the lines of a settlement file in."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = EPILOG
        parser.add_argument("file", type=Path)
        parser.add_argument("--source", required=True, help="a declared source, such as stripe")
        parser.add_argument(
            "--as",
            dest="username",
            help="the account that stands behind the import (default: the product's own)",
        )
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Import, report, and leave with exit code 1 when a line was refused."""
        statement = self._import(options["file"], options["source"], _account(options["username"]))
        self._report(statement, as_json=options["json"])
        if statement.refused:
            sys.exit(1)

    def _import(self, path: Path, source: str, by: User) -> SettlementImport:
        try:
            with path.open("rb") as file:
                return import_file(
                    file=file, name=path.name, source=source, by=by, progress=self._progress
                )
        except (OSError, NotReadable, RefundDeskError) as error:
            raise CommandError(f"{path} was not taken in: {error}") from error

    def _progress(self, rows: int) -> None:
        self.stderr.write(f"{rows} rows read")

    def _report(self, statement: SettlementImport, *, as_json: bool) -> None:
        figures = {name: getattr(statement, name) for name in ("new", "known", "refused", "other")}
        refusals = list(statement.refusals.order_by("number").values("number", "reason"))
        if as_json:
            self.stdout.write(json.dumps({**figures, "refusals": refusals}, indent=2))
            return
        for refusal in refusals:
            self.stdout.write(f"refused  line {refusal['number']}: {refusal['reason']}")
        self.stdout.write(", ".join(f"{number} {name}" for name, number in figures.items()))


def _account(username: str | None) -> User:
    user = User.objects.filter(username=username).first() if username else importer()
    if user is None:
        raise CommandError(f"There is no account {username}.")
    return user
