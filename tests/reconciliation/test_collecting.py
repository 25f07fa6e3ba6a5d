"""Lists of provider and ERP come in by the door of the files: overlapping, none is doubled."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from payments.providers import provider as adapter_of
from payments.providers.base import Movement, NotListed
from reconciliation import collecting
from reconciliation.collecting import collect, keep_entries
from reconciliation.erp.base import Entry, ErpUnknown
from reconciliation.matching.scope import Window
from reconciliation.models import (
    ErpEntry,
    Mismatch,
    ReconciliationRun,
    SettlementImport,
    SettlementLine,
)
from reconciliation.runs import reconcile
from reconciliation.statement_import import import_file
from tests import factories
from tests.sandboxes import SandboxErp, SandboxProvider

TODAY = timezone.now().date()
WINDOW = Window(TODAY - timedelta(days=2), TODAY, "Europe/Berlin")


def listed() -> list[Movement]:
    return list(adapter_of("stripe").movements(WINDOW.start, WINDOW.end))


@pytest.fixture
def paid(run_workers: Callable[..., None], provider: SandboxProvider) -> Any:
    """Three returns, paid and posted."""
    keys = [factories.reserved().pk for _ in range(3)]
    run_workers()
    return keys


def refunded_elsewhere(provider: SandboxProvider, amount: int) -> str:
    """A payment and its refund that our product knows nothing of."""
    client = httpx.Client(base_url=provider.url, headers={"Authorization": "Bearer sk_test_x"})
    card = {"confirm": "true", "payment_method": "pm_card_visa"}
    intent = client.post(
        "/v1/payment_intents", data={"amount": str(amount), "currency": "usd", **card}
    ).json()
    refund = client.post("/v1/refunds", data={"payment_intent": intent["id"]}).json()
    return str(refund["id"])


def settlement_file(provider: SandboxProvider) -> io.BytesIO:
    answer = httpx.get(f"{provider.url}/_control/settlement.csv")
    return io.BytesIO(answer.content)


class TestTheProvidersList:
    def test_it_names_refund_payment_and_operation(
        self, paid: Any, provider: SandboxProvider
    ) -> None:
        movements = {movement.refund: movement for movement in listed()}
        ledger = provider.ledger()
        assert movements.keys() == {refund["refund"] for refund in ledger}
        for refund in ledger:
            movement = movements[refund["refund"]]
            assert movement.kind == "refund"
            assert movement.payment == refund["payment"]
            assert movement.operation == refund["operation_key"]
            assert (movement.amount_minor, movement.currency) == (refund["amount"], "USD")

    def test_what_comes_back_is_negative(self, provider: SandboxProvider) -> None:
        refund = refunded_elsewhere(provider, 700)
        provider.move_refund(refund, "failed")
        assert [(m.kind, m.refund, m.amount_minor) for m in listed()] == [
            ("refund", refund, 700),
            ("refund_returned", refund, -700),
        ]

    def test_every_page_is_read(self, provider: SandboxProvider) -> None:
        refunds = {refunded_elsewhere(provider, 100) for _ in range(130)}
        assert {movement.refund for movement in listed()} == refunds

    def test_no_answer_is_no_list(self, provider: SandboxProvider) -> None:
        for mode in ("error_before", "garbage_after", "drop_after"):
            provider.fault(mode, match="/v1/balance_transactions")
            with pytest.raises(NotListed):
                listed()


class TestTakingIn:
    def test_list_and_file_overlap_without_doubling(
        self, paid: Any, provider: SandboxProvider
    ) -> None:
        collect(WINDOW, lambda _stage: None)
        assert SettlementLine.objects.count() == len(paid)
        collect(WINDOW, lambda _stage: None)
        file = import_file(
            file=settlement_file(provider), name="f", source="sandbox", by=factories.finance()
        )
        assert (file.new, file.known) == (0, len(paid))
        assert SettlementLine.objects.count() == len(paid)
        assert ErpEntry.objects.count() == len(paid)

    def test_no_transaction_is_open_at_any_call_and_memory_holds_one_batch(
        self, transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> None:
        settings.PAYMENT_PROVIDERS = {"stripe": "never imported"}
        factories.integration()
        monkeypatch.setattr(collecting, "BATCH", 10)
        held = []

        class Many:
            def movements(self, start: datetime, end: datetime) -> Iterator[Movement]:
                for n in range(35):
                    assert not connection.in_atomic_block
                    held.append(SettlementLine.objects.count())
                    yield Movement(f"l{n}", "refund", f"re{n}", "pi", "", 100, "EUR", start)

            def entries(self, start: date, end: date) -> Iterator[Entry]:
                assert not connection.in_atomic_block
                return iter(())

        monkeypatch.setattr(collecting, "provider", lambda _name: Many())
        monkeypatch.setattr(collecting, "erp", Many)
        said: list[str] = []
        collect(WINDOW, said.append)
        assert held[:35] == [n // 10 * 10 for n in range(35)]
        assert SettlementLine.objects.count() == 35
        assert said[:4] == [f"{n} movements listed by stripe" for n in (10, 20, 30, 35)]

    def test_an_empty_list_leaves_no_import(
        self, provider: SandboxProvider, erp: SandboxErp, db: None
    ) -> None:
        collect(WINDOW, lambda _stage: None)
        assert SettlementImport.objects.count() == 0


@pytest.mark.django_db
class TestEntries:
    def entry(self, **other: Any) -> Entry:
        return Entry(
            **{
                "entry": "7",
                "reference": "R",
                "amount_minor": 500,
                "currency": "EUR",
                "posted": True,
                "posted_on": TODAY,
                **other,
            }
        )

    def run(self) -> ReconciliationRun:
        return reconcile(first=WINDOW.first, last=WINDOW.last, by=None, collect=lambda *_: None)

    def test_what_is_listed_otherwise_is_found_and_not_overwritten(self) -> None:
        keep_entries([self.entry()])
        assert self.run().opened == 1
        keep_entries([self.entry(amount_minor=700)])
        assert ErpEntry.objects.get().amount_minor == 500
        assert self.run().opened == 1
        item = Mismatch.objects.get(subject="changed:7")
        assert (item.expected_minor, item.found_minor, item.at_stake_minor) == (500, 700, 200)
        assert "7.00 EUR for R" in item.detail
        assert (self.run().opened, self.run().closed) == (0, 0)
        keep_entries([self.entry()])
        assert self.run().closed == 1

    def test_a_page_that_shifts_while_it_is_read_lists_an_entry_twice(self) -> None:
        keep_entries([self.entry(), self.entry()])
        assert ErpEntry.objects.count() == 1

    def test_a_posted_entry_needs_a_date(self) -> None:
        with pytest.raises(ErpUnknown):
            keep_entries([self.entry(posted_on=None)])


class TestTheCommand:
    def reconciled(self, *arguments: str) -> Any:
        output = io.StringIO()
        call_command("reconcile", "--json", *arguments, stdout=output, stderr=io.StringIO())
        return json.loads(output.getvalue())

    def test_all_that_the_demo_does_is_explained(self, paid: Any) -> None:
        report = self.reconciled()
        assert (report["opened"], report["unexplained"]) == (0, 0)
        assert {total["side"] for total in report["totals"]} == {"provider", "books"}
        assert all(total["found_minor"] == total["expected_minor"] for total in report["totals"])

    def test_in_words_it_ends_with_the_verdict(self, paid: Any) -> None:
        output = io.StringIO()
        call_command("reconcile", stdout=output, stderr=io.StringIO())
        assert output.getvalue().endswith("0 opened, 0 closed; every cent is explained\n")

    def test_a_counterpart_out_of_reach_fails_the_run(
        self, provider: SandboxProvider, erp: SandboxErp, db: None
    ) -> None:
        erp.fault("error_before", match="/entries")
        with pytest.raises(CommandError, match="Not reconciled"):
            self.reconciled(f"--from={TODAY}", f"--to={TODAY}")
        assert ReconciliationRun.objects.get().state == "failed"
