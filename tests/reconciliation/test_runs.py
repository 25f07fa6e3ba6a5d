"""What a run looks at, what it opens and closes, and what a person's decision is worth to it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from payments.models import PaymentTask
from reconciliation import scheduling
from reconciliation.models import Mismatch, ReconciliationRun
from reconciliation.resolving import resolve
from reconciliation.runs import RECONCILING, ask, reconcile, take_up
from returns import locking
from returns.errors import Invalid, NotAllowed, WrongState
from tests import factories
from tests.oracle import refused
from tests.past import without_triggers
from tests.reconciliation.small_books import (
    Books,
    Credit,
    Line,
    Operation,
    Payment,
    day,
    key,
    write,
    write_credits,
    write_lines,
)

pytestmark = pytest.mark.django_db

STATE = ReconciliationRun.State


def nothing(*_: object) -> None:
    """Everything is there already."""


def run(first: int, last: int) -> ReconciliationRun:
    made = reconcile(first=day(first), last=day(last), by=None, collect=nothing)
    assert [total for total in made.totals.all() if total.unexplained_minor] == []
    return made


def open_items() -> list[tuple[str, int | None, int | None]]:
    items = Mismatch.objects.filter(status="open").order_by("pk")
    return list(items.values_list("kind", "expected_minor", "found_minor"))


def paid_and_credited(*payments: Payment, currency: str = "EUR") -> Books:
    """One operation with these payments, credited in full on the day of the last one."""
    books = Books(operations=[Operation(payments, currency)])
    total = sum(payment.minor for payment in payments)
    books.credits.append(Credit(str(key(0)), total, max(p.day for p in payments), currency))
    return books


class TestWindows:
    def test_a_line_of_the_next_month_brings_its_payment_in(self) -> None:
        books = paid_and_credited(Payment(500, day=0))
        write(books)
        assert (run(0, 5).opened, open_items()) == (1, [("paid_not_at_provider", 500, 0)])
        write_lines([Line("re_0_0", 507, day=12)])
        later = run(10, 15)
        assert (later.opened, later.closed) == (1, 1)
        assert open_items() == [("amount_differs", 500, 507)]
        assert [total.day for total in later.totals.all()] == [day(0)]

    def test_what_is_mended_closes_whatever_days_the_run_is_about(self) -> None:
        write(paid_and_credited(Payment(500, day=0)))
        run(0, 5)
        write_lines([Line("re_0_0", 500, day=1)])
        assert run(30, 35).closed == 1
        assert open_items() == []

    def test_a_refund_over_two_tenders_on_two_days_is_one_credit(self) -> None:
        books = paid_and_credited(Payment(300, day=0), Payment(200, day=4))
        books.lines = [Line("re_0_0", 300, day=0), Line("re_0_1", 200, day=5)]
        write(books)
        for window in ((0, 2), (3, 9), (0, 9)):
            assert run(*window).opened == 0
        assert {t.day: t.expected_minor for t in run(0, 9).totals.filter(side="books")} == {
            day(4): 500
        }

    def test_a_second_credit_of_another_month_is_found_from_either_side(self) -> None:
        books = paid_and_credited(Payment(500, day=0))
        books.lines = [Line("re_0_0", 500, day=0)]
        books.credits.append(Credit(str(key(0)), 500, day=20))
        write(books)
        assert run(18, 22).opened == 1
        assert run(0, 2).opened == 0
        assert open_items() == [("more_than_one_credit", 500, 1000)]

    def test_a_chargeback_of_another_month_is_found_from_either_side(self) -> None:
        books = paid_and_credited(Payment(500, day=0))
        books.lines = [
            Line("re_0_0", 500, day=0),
            Line("dp_1", 500, day=20, kind="chargeback", payment="pi_0_0"),
        ]
        write(books)
        assert run(0, 2).opened == 1
        assert run(18, 22).opened == 0
        write_lines([Line("dp_1", -500, day=40, kind="chargeback_reversed", payment="pi_0_0")])
        assert run(0, 2).closed == 1

    def test_days_that_are_none_are_refused(self) -> None:
        with refused(Invalid):
            reconcile(first=day(1), last=day(0), by=None, collect=nothing)
        with refused(NotAllowed, code="role"):
            reconcile(first=day(0), last=day(1), by=factories.desk(), collect=nothing)


class TestWhatIsNotMissing:
    def test_nothing_is_missing_while_it_may_still_come(self, settings: Settings) -> None:
        write(Books(operations=[Operation((Payment(500, day=0),))]))
        settings.RECONCILIATION_GRACE_SECONDS = 100 * 24 * 3600
        made = run(0, 5)
        assert made.opened == 0
        assert {total.under_way_minor for total in made.totals.all()} == {-500}
        settings.RECONCILIATION_GRACE_SECONDS = 3600
        assert run(0, 5).opened == 2

    def test_money_handed_over_has_no_line_but_a_credit(self) -> None:
        books = paid_and_credited(Payment(500, day=0, provider="manual"))
        write(books)
        made = run(0, 5)
        assert made.opened == 0
        assert [total.side for total in made.totals.all()] == ["books"]
        with without_triggers(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM reconciliation_erpentry")
        run(0, 5)
        assert open_items() == [("credit_missing", 500, 0)]

    def test_a_refund_that_we_know_was_made_elsewhere_is_no_finding(self) -> None:
        books = paid_and_credited(Payment(500, day=0))
        books.external = ["re_dashboard"]
        books.lines = [Line("re_0_0", 500, day=0), Line("re_dashboard", 1, day=1)]
        write(books)
        assert run(0, 5).opened == 0

    def test_a_line_of_a_payment_in_flight_is_under_way(self) -> None:
        books = Books(operations=[Operation((Payment(500, day=0, state="unknown"),))])
        books.lines = [Line("re_new", 500, day=0, operation=str(key(0)))]
        write(books)
        made = run(0, 5)
        assert made.opened == 0
        assert [total.under_way_minor for total in made.totals.all()] == [500]

    def test_currencies_never_make_up_for_one_another(self) -> None:
        books = paid_and_credited(Payment(500, day=0))
        books.lines = [Line("re_0_0", 500, day=0, currency="USD")]
        write(books)
        made = run(0, 5)
        assert open_items() == [("currency_differs", 500, 0)]
        figures = {
            t.currency: (t.expected_minor, t.found_minor, t.explained_minor)
            for t in made.totals.filter(side="provider")
        }
        assert figures == {"EUR": (500, 0, -500), "USD": (0, 500, 500)}


class TestWhatAPersonDecides:
    def differing(self) -> Mismatch:
        books = paid_and_credited(Payment(500, day=0))
        books.lines = [Line("re_0_0", 507, day=0)]
        write(books)
        run(0, 5)
        return Mismatch.objects.get()

    def test_the_same_figures_stay_decided_and_others_are_a_new_item(self) -> None:
        item = self.differing()
        resolve(
            mismatch_id=item.pk, by=factories.finance(), resolution="accept", reason="only rounding"
        )
        assert (run(0, 5).opened, open_items()) == (0, [])
        write_lines([Line("re_0_0", 1, day=1)])
        run(0, 5)
        assert [found for _, _, found in open_items()] == [508]

    def test_righted_and_wrong_again_is_a_new_item(self) -> None:
        first = self.differing()
        write_lines([Line("re_0_0", -7, day=1, kind="refund_returned")])
        assert run(0, 5).closed == 1
        write_lines([Line("re_0_0", 7, day=2)])
        assert run(0, 5).opened == 1
        assert Mismatch.objects.get(status="open").pk != first.pk

    def test_what_the_sweep_has_found_is_not_opened_twice(self) -> None:
        books = paid_and_credited(Payment(500, day=0))
        books.lines = [
            Line("re_0_0", 500, day=0),
            Line("re_0_0", -500, day=1, kind="refund_returned"),
        ]
        write(books)
        task = PaymentTask.objects.get()
        Mismatch.objects.create(
            fingerprint=f"payment:{task.pk}:returned",
            kind="returned_after_success",
            payment=task,
            operation=task.operation,
            at_stake_minor=500,
            currency="EUR",
            detail="the bank",
            opened_at=timezone.now(),
        )
        made = run(0, 5)
        assert (made.opened, len(open_items())) == (0, 1)
        assert run(0, 5).closed == 0


class TestTakingTurns:
    def test_who_asks_waits_for_whoever_takes_up(self) -> None:
        finance = factories.finance()
        asked = ask(first=day(0), last=day(5), by=finance)
        assert ask(first=day(0), last=day(5), by=finance) == asked
        with refused(WrongState):
            ask(first=day(0), last=day(6), by=finance)
        done = take_up(nothing)
        assert done is not None
        assert (done.pk, done.state, done.started_by) == (asked.pk, STATE.FINISHED, finance)
        assert take_up(nothing) is None

    def test_a_run_that_fails_says_why_and_is_in_nobodys_way(self) -> None:
        def fails(*_: object) -> None:
            raise RuntimeError("the list does not answer")

        with pytest.raises(RuntimeError):
            reconcile(first=day(0), last=day(5), by=None, collect=fails)
        failed = ReconciliationRun.objects.get()
        assert (failed.state, failed.stage) == (STATE.FAILED, "the list does not answer")
        assert run(0, 5).state == STATE.FINISHED

    def test_a_run_that_nobody_holds_the_lock_of_was_killed(self) -> None:
        left = ReconciliationRun.objects.create(
            first=day(0), last=day(5), state=STATE.RUNNING, started_at=timezone.now()
        )
        assert run(0, 5).state == STATE.FINISHED
        assert ReconciliationRun.objects.get(pk=left.pk).state == STATE.FAILED

    def test_the_lock_is_free_again_and_can_be_taken_inside_nothing_else(self) -> None:
        with locking.only_one(RECONCILING) as mine:
            assert mine
        with locking.only_one(RECONCILING) as mine:
            assert mine


class TestEveryNight:
    @pytest.fixture(autouse=True)
    def nightly(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.RECONCILE_AT = "00:00"
        monkeypatch.setattr(scheduling, "collect", nothing)

    def test_once_a_night_and_again_only_after_a_failure(self) -> None:
        assert scheduling.run_what_is_due() == {"reconciled": 1}
        assert scheduling.run_what_is_due() == {"reconciled": 0}
        with without_triggers(), connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE reconciliation_reconciliationrun DISABLE TRIGGER USER;"
                "UPDATE reconciliation_reconciliationrun SET state = 'failed';"
                "ALTER TABLE reconciliation_reconciliationrun ENABLE TRIGGER USER"
            )
        assert scheduling.run_what_is_due() == {"reconciled": 0}

    def test_never_where_no_hour_is_set(self, settings: Settings) -> None:
        settings.RECONCILE_AT = ""
        assert scheduling.run_what_is_due() == {"reconciled": 0}
        ask(first=day(0), last=day(1), by=factories.finance())
        assert scheduling.run_what_is_due() == {"reconciled": 1}


def test_a_month_is_what_a_night_looks_at(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RECONCILE_AT = "00:00"
    monkeypatch.setattr(scheduling, "collect", nothing)
    scheduling.run_what_is_due()
    made = ReconciliationRun.objects.get()
    assert made.last - made.first == timedelta(days=settings.RECONCILE_DAYS)


def test_a_credit_is_found_under_a_reference_that_is_no_key() -> None:
    write(Books())
    write_credits([Credit("R-12", 500, day=0)])
    run(0, 5)
    assert open_items() == [("reference_damaged", 0, 500)]
