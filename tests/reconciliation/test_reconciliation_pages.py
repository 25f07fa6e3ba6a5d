"""The pages of reconciliation: totals, runs, imports, and sending a settlement file."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as configured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from reconciliation.models import ReconciliationRun, SettlementImport, SettlementLine
from reconciliation.runs import reconcile, take_up
from tests import factories
from tests.pages import assert_constant, signed_in, text_of
from tests.reconciliation.small_books import (
    Books,
    Credit,
    Line,
    Operation,
    Payment,
    day,
    key,
    write,
)
from tests.reconciliation.test_statement_import import HEADER, row

pytestmark = pytest.mark.django_db

PAGE = "/reconciliation/"


def run(first: int = 0, last: int = 5) -> ReconciliationRun:
    return reconcile(first=day(first), last=day(last), by=None, collect=lambda *_: None)


def sent(client: Client, content: bytes, name: str = "november.csv", **more: str) -> Any:
    file = SimpleUploadedFile(name, content)
    form = {"source": "sandbox", "file": file, **more}
    return client.post(f"{PAGE}settlement/", form, follow=True)


@pytest.fixture
def finance() -> Client:
    return signed_in(factories.finance())


class TestASettlementFile:
    def test_its_result_is_shown_with_the_refused_lines(self, finance: Client) -> None:
        page = sent(finance, (HEADER + row(line="1") + row("-1.2.3", line="2")).encode())
        text = text_of(page)
        assert "new 1" in text
        assert "refused 1" in text
        assert "1.2.3" in text
        again = text_of(sent(finance, (HEADER + row(line="1")).encode()))
        assert "new 0 known already 1" in again

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"PK\x03\x04 a spreadsheet", "no text file"),
            (b"%PDF-1.7", "no text file"),
            (b"a\0b", "no text file"),
            (b"", "empty"),
            (HEADER.encode(), "no rows"),
            (b"date;amount\n1;2\n", "No line near the top names"),
        ],
    )
    def test_what_is_none_is_refused_in_words(
        self, finance: Client, content: bytes, words: str
    ) -> None:
        page = sent(finance, content)
        assert page.status_code == 400
        assert words in text_of(page)
        assert not SettlementImport.objects.exists()

    def test_a_file_above_the_limit_is_refused(self, finance: Client, settings: Settings) -> None:
        settings.SETTLEMENT_UPLOAD_MAX_BYTES = 1000
        page = sent(finance, (HEADER + row(line="1") * 30).encode())
        assert page.status_code == 400
        assert "import_settlement" in text_of(page)
        body = (HEADER + row(line="1") * 3000).encode()
        assert sent(finance, body).status_code == 400
        assert not SettlementLine.objects.exists()

    def test_an_unknown_source_is_refused(self, finance: Client) -> None:
        page = sent(finance, (HEADER + row(line="1")).encode(), source="nobody")
        assert page.status_code == 400


class TestRuns:
    def test_asking_is_not_running(self, finance: Client) -> None:
        form = {"first": day(0).isoformat(), "last": day(5).isoformat()}
        page = finance.post(f"{PAGE}run/", form, follow=True)
        assert "waiting" in text_of(page)
        asked = ReconciliationRun.objects.get()
        assert asked.state == ReconciliationRun.State.WAITING
        take_up(lambda *_: None)
        assert "every cent explained" in text_of(finance.get(f"{PAGE}runs/{asked.pk}/"))

    def test_days_that_are_none_are_refused(self, finance: Client) -> None:
        page = finance.post(f"{PAGE}run/", {"first": "2026-13-01", "last": ""})
        assert page.status_code == 400
        assert not ReconciliationRun.objects.exists()

    def test_totals_are_shown_by_day_and_currency(self, finance: Client) -> None:
        write(
            Books(
                operations=[Operation((Payment(500, day=0),))],
                lines=[Line("re_0_0", 507, day=0)],
                credits=[Credit(str(key(0)), 500, day=0)],
            )
        )
        text = text_of(finance.get(f"{PAGE}runs/{run().pk}/"))
        assert "EUR 5.00 EUR 5.07 EUR 0.07 EUR 0.07" in text
        assert "amount differs EUR 0.07" in text

    def test_only_finance_sees_them(self) -> None:
        desk = signed_in(factories.desk())
        for address in (PAGE, f"{PAGE}runs/1/", f"{PAGE}imports/1/"):
            assert desk.get(address).status_code == 403
        assert sent(desk, b"x").status_code == 403
        assert signed_in(factories.finance()).get(f"{PAGE}runs/1/").status_code == 404

    def test_statements_do_not_depend_on_rows(self, finance: Client) -> None:
        made = run()
        sent(finance, (HEADER + row(line="0") + row("x", line="x")).encode())
        statement = SettlementImport.objects.latest("pk")

        def more() -> None:
            for n in range(3):
                run(n, n + 3)
                sent(finance, (HEADER + row(line=str(n)) + row("x", line="x") * n).encode())

        addresses = [PAGE, f"{PAGE}runs/{made.pk}/", f"{PAGE}imports/{statement.pk}/"]
        assert_constant(finance, addresses, more)


def test_the_size_is_refused_before_the_file_is_stored() -> None:
    assert configured.FILE_UPLOAD_HANDLERS[0] == "reconciliation.uploads.TooLargeIsRefused"
