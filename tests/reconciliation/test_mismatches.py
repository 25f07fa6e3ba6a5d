"""What a person must close: opened from facts, once, and closed with a reason; money stays put."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from payments.models import PaymentTask, ProviderEvent
from reconciliation.mismatches import close_righted, open_new
from reconciliation.models import ErpPosting, Mismatch
from reconciliation.posting import open_postings
from reconciliation.resolving import resolve
from returns.errors import Invalid, Missing, NotAllowed, WrongState
from returns.states import TaskState
from tests import factories
from tests.factories import cash, finance
from tests.oracle import nothing_changes, refused, snapshot
from tests.raw_sql import change
from tests.workers import let_pass

pytestmark = pytest.mark.django_db


def stuck_payment(attention: str = "window_closed") -> PaymentTask:
    """A payment that was set aside for a person."""
    task = factories.reserved().payments.get()
    change(task, state="stuck", attention=attention, next_look_at=None, last_answer="no answer")
    return task


def stuck_posting() -> ErpPosting:
    factories.paid(factories.OrderFactory.create(tenders=[cash(10_000)]))
    open_postings()
    posting = ErpPosting.objects.get()
    change(posting, state="stuck", attention="refused", next_look_at=None, last_answer="closed")
    return posting


def doubtful_payment() -> PaymentTask:
    """A payment that may have happened, sent more than an hour ago."""
    task = factories.reserved().payments.get()
    at = task.created_at
    change(task, state="sending", first_sent_at=at, last_sent_at=at, last_send_ends_at=at)
    change(task, state="unknown", in_doubt=True)
    let_pass(3601)
    return task


def strange_event() -> ProviderEvent:
    return ProviderEvent.objects.create(
        provider="other",
        event_id="evt_1",
        kind="mystery",
        occurred_at=factories.PLACED_AT,
        body="{}",
        live_mode=False,
        standing=ProviderEvent.Standing.NOT_UNDERSTOOD,
        received_at=factories.PLACED_AT,
    )


@pytest.fixture
def mismatch() -> Mismatch:
    """About an event that nobody understands."""
    strange_event()
    open_new()
    return Mismatch.objects.get()


# Opening.


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("window_closed", "stuck_payment"),
        ("kills_its_worker", "stuck_payment"),
        ("amount_differs", "amount_differs"),
        ("currency_differs", "currency_differs"),
        ("more_than_one_payment", "more_than_one_payment"),
        ("reference_not_ours", "reference_damaged"),
    ],
)
def test_a_payment_set_aside_becomes_an_item_for_a_person(word: str, kind: str) -> None:
    task = stuck_payment(word)
    assert open_new() == 1
    mismatch = Mismatch.objects.get()
    assert (mismatch.kind, mismatch.status, mismatch.payment) == (kind, "open", task)
    assert (mismatch.at_stake_minor, mismatch.currency) == (10_000, "USD")
    assert mismatch.operation == task.operation
    assert mismatch.detail == f"{word}: no answer"


def test_a_refused_credit_becomes_an_item_for_a_person() -> None:
    posting = stuck_posting()
    assert open_new() == 1
    mismatch = Mismatch.objects.get()
    assert (mismatch.kind, mismatch.posting) == ("erp_refused", posting)


def test_an_event_that_nobody_understands_becomes_an_item_for_a_person() -> None:
    event = strange_event()
    assert open_new() == 1
    mismatch = Mismatch.objects.get()
    assert (mismatch.kind, mismatch.event) == ("event_not_understood", event)


def test_a_doubt_is_brought_to_a_person_after_an_hour() -> None:
    task = factories.reserved().payments.get()
    change(task, state="sending", first_sent_at=task.created_at)
    change(task, state="unknown")
    let_pass(3500)
    assert open_new() == 0
    let_pass(101)
    assert open_new() == 1


def test_the_same_trouble_with_the_same_row_is_one_item() -> None:
    task = stuck_payment()
    open_new()
    change(task, lease=task.lease + 2)  # asked again, and set aside again
    with nothing_changes():
        assert open_new() == 0


def test_trouble_that_comes_back_after_it_was_closed_is_a_new_item() -> None:
    task = stuck_payment()
    open_new()
    change(task, state=TaskState.UNKNOWN, next_look_at=timezone.now(), attention="")
    close(Mismatch.objects.get())
    with nothing_changes():
        assert open_new() == 0
    change(task, state=TaskState.STUCK, next_look_at=None, lease=task.lease + 2)
    assert open_new() == 1


def test_nothing_is_opened_while_all_is_well() -> None:
    factories.reserved()
    factories.paid(factories.OrderFactory.create(tenders=[cash(10_000)]))
    open_postings()
    with nothing_changes():
        assert open_new() == 0


# Closing by itself.


def test_what_has_become_right_closes_by_itself_and_says_so(
    run_workers: Callable[..., None],
) -> None:
    doubtful_payment()
    open_new()
    mismatch = Mismatch.objects.get()
    with nothing_changes():
        assert close_righted() == 0
    run_workers()
    mismatch.refresh_from_db()
    assert (mismatch.status, mismatch.resolution) == ("resolved", "righted")
    assert mismatch.resolved_by is None


# Closing by a person.


def close(mismatch: Mismatch, **other: Any) -> Mismatch:
    decision = {"resolution": "accept", "reason": "looked at both", "by": finance(), **other}
    return resolve(mismatch_id=mismatch.pk, **decision)


def test_resolving_moves_no_money_and_no_state() -> None:
    task = doubtful_payment()
    open_new()
    mismatch = Mismatch.objects.get()
    before = {row for row in snapshot() if "mismatch" not in row[0]}
    closed = close(mismatch)
    assert (closed.status, closed.resolved_by) == ("resolved", finance())
    assert {row for row in snapshot() if "mismatch" not in row[0]} == before
    assert factories.fresh(task.operation).order.balance.reserved_minor == 10_000


def test_the_same_resolution_again_changes_nothing_and_another_is_refused(
    mismatch: Mismatch,
) -> None:
    close(mismatch)
    with nothing_changes():
        close(mismatch, by=factories.person("other", "finance"))
    with refused(WrongState, resolution="accept"):
        close(mismatch, resolution="chase")


@pytest.mark.parametrize(
    ("decision", "field"),
    [
        ({"reason": "  "}, "reason"),
        ({"resolution": "forget"}, "resolution"),
        ({"resolution": "righted"}, "resolution"),
        ({"resolution": "link"}, "operation"),
    ],
)
def test_a_resolution_is_one_of_the_offered_with_a_reason(
    mismatch: Mismatch, decision: dict[str, str], field: str
) -> None:
    with refused(Invalid) as refusal:
        close(mismatch, **decision)
    assert list(refusal.value.fields) == [field]


def test_a_mismatch_may_be_linked_to_the_operation_it_belongs_to(mismatch: Mismatch) -> None:
    other = factories.received()
    linked = close(mismatch, resolution="link", operation_key=other.operation_key)
    assert linked.operation == other


@pytest.mark.parametrize("role", ["desk", "manager", "integration"])
def test_only_finance_closes(mismatch: Mismatch, role: str) -> None:
    with refused(NotAllowed, code="role"):
        close(mismatch, by=factories.person("somebody", role))


def test_an_unknown_mismatch_is_said_to_be_unknown(mismatch: Mismatch) -> None:
    with refused(Missing, code="unknown_mismatch"):
        resolve(mismatch_id=0, by=finance(), resolution="accept", reason="it is gone")
