"""A settlement file comes in whole or not at all, and each of its lines once (RE-01, SC-02)."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from reconciliation.models import SettlementImport, SettlementLine
from reconciliation.statement_import import import_file
from reconciliation.statements.known_formats import SANDBOX
from reconciliation.statements.reading import NotReadable
from returns.errors import Invalid, NotAllowed
from tests import factories
from tests.oracle import nothing_changes, refused

pytestmark = pytest.mark.django_db

HEADER = "line_id,type,refund,payment,amount,currency,created,operation_key\n"
CONTENT_ONLY = "tests.reconciliation.test_statement_import.WITHOUT_NUMBERS"


WITHOUT_NUMBERS = replace(SANDBOX, line_id="")


def row(amount: str = "-25.00", refund: str = "re_1", line: str = "", currency: str = "EUR") -> str:
    return f"{line},refund,{refund},pi_1,{amount},{currency},2026-11-02T10:00:00Z,\n"


def taken_in(text: str, source: str = "sandbox") -> SettlementImport:
    file = io.BytesIO(text.encode())
    return import_file(file=file, name="november.csv", source=source, by=factories.finance())


def figures(statement: SettlementImport) -> tuple[int, int, int, int]:
    return statement.new, statement.known, statement.refused, statement.other


@pytest.fixture
def two_accounts(settings: Settings) -> None:
    settings.SETTLEMENT_SOURCES = {
        "ours": {"account": "ours", "format": CONTENT_ONLY},
        "theirs": {"account": "theirs", "format": CONTENT_ONLY},
    }


def sum_of(account: str) -> int:
    lines = SettlementLine.objects.filter(account=account)
    return int(lines.aggregate(total=Sum("amount_minor"))["total"] or 0)


def test_equal_rows_are_different_refunds_and_the_same_rows_are_the_same_ones(
    two_accounts: None,
) -> None:
    first = HEADER + row() * 2
    assert figures(taken_in(first, "ours")) == (2, 0, 0, 0)
    assert figures(taken_in(first, "ours")) == (0, 2, 0, 0)
    assert figures(taken_in(HEADER + row() * 3, "ours")) == (1, 2, 0, 0)
    assert figures(taken_in(HEADER + row(), "theirs")) == (1, 0, 0, 0)
    assert (sum_of("ours"), sum_of("theirs")) == (7500, 2500)


def test_a_line_with_a_number_of_its_own_is_known_by_it() -> None:
    assert figures(taken_in(HEADER + row(line="txn_1") + row(line="txn_2"))) == (2, 0, 0, 0)
    again = taken_in(HEADER + row(line="txn_2") + row(line="txn_3") + row(line="txn_3"))
    assert figures(again) == (1, 2, 0, 0)


def test_refused_lines_are_kept_with_their_numbers_and_stop_nothing() -> None:
    text = HEADER + row(line="1") + row("-1.355.90", line="2") + row(line="3")
    statement = taken_in(text + "4,charge,,pi_1,9.00,EUR,2026-11-02T10:00:00Z,\n")
    assert figures(statement) == (2, 0, 1, 1)
    (refusal,) = statement.refusals.all()
    assert refusal.number == 3
    assert "1.355.90" in refusal.reason


def test_a_file_that_is_not_as_declared_leaves_nothing() -> None:
    with nothing_changes(), pytest.raises(NotReadable):
        taken_in(HEADER)
    with nothing_changes(), pytest.raises(NotReadable):
        taken_in(HEADER + row(line="1") + '"unfinished')
    with refused(Invalid):
        taken_in(HEADER + row(), "nobody")
    with refused(NotAllowed, code="role"):
        import_file(file=io.BytesIO(b""), name="a.csv", source="sandbox", by=factories.desk())


def test_the_number_of_statements_does_not_depend_on_the_number_of_rows() -> None:
    factories.finance()
    counts = []
    for rows in (10, 5000):
        text = HEADER + "".join(row(line=f"{rows}-{n}") for n in range(rows))
        with CaptureQueriesContext(
            connection,
        ) as queries:
            taken_in(text)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_killed_half_way_and_done_again_is_one_clean_import() -> None:
    def dies(rows: int) -> None:
        if rows >= 20_000:
            raise KeyboardInterrupt

    lines = [row(line=f"txn_{n % 39_950}", refund=f"re_{n}") for n in range(40_000)]
    file = (HEADER + "".join(lines)).encode()
    with nothing_changes(), pytest.raises(KeyboardInterrupt):
        import_file(
            file=io.BytesIO(file),
            name="big",
            source="sandbox",
            by=factories.finance(),
            progress=dies,
        )
    assert figures(taken_in(file.decode())) == (39_950, 50, 0, 0)


def command(*arguments: str, output: io.StringIO | None = None) -> Any:
    out = output or io.StringIO()
    call_command("import_settlement", *arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def test_the_command_reports_and_leaves_with_1_when_a_line_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "november.csv"
    path.write_text(HEADER + row(line="1"))
    assert command(str(path), "--source=sandbox") == {
        "new": 1,
        "known": 0,
        "refused": 0,
        "other": 0,
        "refusals": [],
    }
    path.write_text(HEADER + row("1", line="2"))
    output = io.StringIO()
    with pytest.raises(SystemExit) as left:
        command(str(path), "--source=sandbox", output=output)
    assert left.value.code == 1
    assert json.loads(output.getvalue())["refusals"][0]["number"] == 2
    path.write_text(HEADER)
    with pytest.raises(CommandError, match="no rows"):
        command(str(path), "--source=sandbox")
