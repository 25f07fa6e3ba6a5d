"""The sweep over the money: it finds what nobody holds, and one bad row stops no other."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django_q.models import OrmQ

from payments import dispatch, recovery
from payments.models import PaymentTask
from payments.outcomes import Outcome
from payments.providers.base import PaymentOrder
from payments.providers.stripe import StripeProvider
from payments.reservation import QUEUE_GETS_SECONDS
from returns.states import TaskState
from tests import factories
from tests.oracle import nothing_changes
from tests.payments.reading import keys_sent, reserved_payment, stored
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass, run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

LEASE_SECONDS = 31


def test_a_payment_whose_queue_message_is_lost_is_found(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    OrmQ.objects.all().delete()
    assert recovery.sweep()["calls"] == 0, "the queue goes first"
    let_pass(QUEUE_GETS_SECONDS + 1)
    passed = recovery.sweep()
    assert passed == {"approved": 0, "payments_due": 1, "calls": 1, "events_applied": 0}
    assert stored(task).state == TaskState.SUCCEEDED


def test_every_due_payment_is_looked_at_once_by_whatever_thread(
    provider: SandboxProvider,
) -> None:
    tasks = [reserved_payment(provider) for _ in range(6)]
    let_pass(QUEUE_GETS_SECONDS + 1)
    assert recovery.sweep(threads=4)["calls"] == 6
    assert sorted(keys_sent(provider)) == sorted(str(task.wire_key) for task in tasks)


def test_a_sweep_with_nothing_due_changes_nothing(
    provider: SandboxProvider, erp: SandboxErp
) -> None:
    reserved_payment(provider)
    run_until_done(provider)
    with nothing_changes():
        assert not any(recovery.sweep().values())


def test_a_row_that_fails_stops_no_other_and_is_looked_at_after_its_lease(
    provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = reserved_payment(provider), reserved_payment(provider)
    pay = StripeProvider.pay

    def fails_for_one(adapter: StripeProvider, order: PaymentOrder) -> Outcome:
        if order.wire_key == bad.wire_key:
            raise ZeroDivisionError
        return pay(adapter, order)

    monkeypatch.setattr(StripeProvider, "pay", fails_for_one)
    let_pass(QUEUE_GETS_SECONDS + 1)
    recovery.sweep(threads=1)
    assert (stored(bad).state, stored(good).state) == (TaskState.SENDING, TaskState.SUCCEEDED)

    monkeypatch.setattr(StripeProvider, "pay", pay)
    assert recovery.due_payments() == []
    let_pass(LEASE_SECONDS)
    recovery.sweep(threads=1)
    assert stored(bad).state == TaskState.SUCCEEDED
    assert len(provider.ledger()) == 2


def test_the_oldest_look_comes_first_and_one_pass_has_a_bound(
    provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = reserved_payment(provider)
    let_pass(1)
    second = reserved_payment(provider)
    let_pass(QUEUE_GETS_SECONDS + 1)
    monkeypatch.setattr(recovery, "MOST_A_PASS", 1)
    assert recovery.due_payments() == [first.pk]
    recovery.sweep()
    assert recovery.due_payments() == [second.pk]


def test_money_that_a_person_hands_over_is_left_to_the_person(provider: SandboxProvider) -> None:
    order = factories.OrderFactory.create(tenders=[factories.cash(10_000)])
    task = PaymentTask.objects.get(operation=factories.reserved(order))
    let_pass(24 * 60 * 60)
    assert recovery.due_payments() == []
    assert dispatch.pay(task.pk) == 0
    assert stored(task).state == TaskState.PENDING
    assert provider.requests() == []


def test_the_command_makes_one_pass_and_reports_it(
    provider: SandboxProvider, erp: SandboxErp
) -> None:
    reserved_payment(provider)
    let_pass(QUEUE_GETS_SECONDS + 1)
    assert swept() | {"erp_calls": 0} == {
        "approved": 0,
        "payments_due": 1,
        "calls": 1,
        "events_applied": 0,
        "postings_opened": 1,
        "posted_again": 0,
        "postings_due": 0,
        "erp_calls": 0,
        "late_drafts_deleted": 0,
        "mismatches_opened": 0,
        "mismatches_closed": 0,
    }
    let_pass(QUEUE_GETS_SECONDS + 1)
    assert swept()["postings_due"] == 1
    assert [entry["state"] for entry in erp.entries()] == ["posted"]
    assert not any(swept().values())


def swept() -> dict[str, Any]:
    """What `manage.py sweep --json` prints."""
    out = StringIO()
    call_command("sweep", "--json", "--threads", "1", stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report
