"""One return is decided once, whatever two people press at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.db import DatabaseError

from payments import approval
from payments.models import Approval, PaymentTask
from returns import closing, inspection
from returns.closing import reject, withdraw
from returns.errors import WrongState
from returns.inspection import UnitFound, inspect
from returns.models import Inspection, RefundOperation
from tests import factories
from tests.factories import approved_by, desk, line, manager, second_manager
from tests.races.staging import Pause, meet_after, turn_locks_off
from tests.workers import at_once

pytestmark = pytest.mark.django_db(transaction=True)

Call = Callable[[], RefundOperation]


def reject_it(operation: RefundOperation) -> Call:
    by = second_manager()
    return lambda: reject(operation_key=operation.operation_key, by=by, reason="worn")


def withdraw_it(operation: RefundOperation) -> Call:
    by = desk()
    return lambda: withdraw(operation_key=operation.operation_key, by=by)


def approve_it(operation: RefundOperation) -> Call:
    return partial(approved_by, manager(), operation)


def inspect_it(operation: RefundOperation, *, good: bool = True) -> Call:
    by, found = desk(), [UnitFound("shirt", 1)]
    return lambda: inspect(
        operation_key=operation.operation_key,
        by=by,
        accepted=found if good else [],
        rejected=[] if good else found,
    )


def test_without_the_lock_two_approvals_of_one_return_are_stopped_by_the_database_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The danger: both find the return undecided."""
    operation = factories.inspected()
    calls = [partial(approved_by, by, operation) for by in (manager(), second_manager())]
    turn_locks_off(monkeypatch)
    meet_after(monkeypatch, approval, "_refuse_wrong_state")
    results = at_once(calls)
    assert [isinstance(result, DatabaseError) for result in results].count(True) == 1
    assert PaymentTask.objects.count() == 1


def test_two_approvals_of_one_return_make_one_payment(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = factories.inspected()
    between = Pause(monkeypatch, approval, "_refuse_wrong_state")
    first, second = between.first_then_second(
        partial(approved_by, manager(), operation),
        partial(approved_by, second_manager(), operation),
    )
    assert [answer.state for answer in (first, second) if isinstance(answer, RefundOperation)] == [
        "reserved",
        "reserved",
    ]
    assert (PaymentTask.objects.count(), Approval.objects.count()) == (1, 1)


def test_a_double_click_of_eight_makes_one_payment() -> None:
    operation = factories.inspected()
    results = at_once([partial(approved_by, manager(), operation)] * 8)
    assert [getattr(result, "state", result) for result in results] == ["reserved"] * 8
    assert (PaymentTask.objects.count(), Approval.objects.count()) == (1, 1)


def test_two_second_signatures_at_once_reserve_once() -> None:
    operation = factories.inspected(
        factories.OrderFactory.create(lines=[line(price_minor=600_000)])
    )
    people = [manager(), second_manager()]
    results = at_once([partial(approved_by, by, operation) for by in people])
    assert not [result for result in results if isinstance(result, Exception)]
    assert factories.fresh(operation).state == "reserved"
    assert (PaymentTask.objects.count(), Approval.objects.count()) == (1, 2)


@pytest.mark.parametrize("close", [reject_it, withdraw_it])
def test_an_approval_that_comes_first_wins(
    monkeypatch: pytest.MonkeyPatch, close: Callable[[RefundOperation], Call]
) -> None:
    operation = factories.inspected()
    between = Pause(monkeypatch, approval, "_refuse_wrong_state")
    winner, loser = between.first_then_second(approve_it(operation), close(operation))
    assert isinstance(winner, RefundOperation)
    assert isinstance(loser, WrongState)
    assert loser.facts == {"state": "reserved"}
    assert operation.claims.filter(live=True).count() == 1


@pytest.mark.parametrize("close", [reject_it, withdraw_it])
def test_an_end_that_comes_first_wins_and_nothing_is_paid(
    monkeypatch: pytest.MonkeyPatch, close: Callable[[RefundOperation], Call]
) -> None:
    operation = factories.inspected()
    between = Pause(monkeypatch, closing, "_refuse_unless_open")
    winner, loser = between.first_then_second(close(operation), approve_it(operation))
    assert isinstance(winner, RefundOperation)
    assert isinstance(loser, WrongState)
    assert loser.facts == {"state": winner.state}
    assert not PaymentTask.objects.exists()


def test_of_two_different_findings_the_first_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = factories.received()
    between = Pause(monkeypatch, inspection, "_claims_by_unit")
    winner, loser = between.first_then_second(
        inspect_it(operation, good=True), inspect_it(operation, good=False)
    )
    assert isinstance(winner, RefundOperation)
    assert isinstance(loser, WrongState)
    assert operation.claims.get().live


def test_the_same_findings_twice_at_once_are_one_inspection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operation = factories.received()
    between = Pause(monkeypatch, inspection, "_claims_by_unit")
    results = between.first_then_second(inspect_it(operation), inspect_it(operation))
    assert [getattr(result, "state", result) for result in results] == ["inspected"] * 2
    assert Inspection.objects.count() == 1


def test_a_withdrawal_during_the_inspection_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operation = factories.received()
    between = Pause(monkeypatch, inspection, "_claims_by_unit")
    results = between.first_then_second(inspect_it(operation), withdraw_it(operation))
    assert not [result for result in results if isinstance(result, Exception)]
    verbs = factories.fresh(operation).events.order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["take_in", "inspect", "withdraw"]
