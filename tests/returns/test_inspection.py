"""Every unit is judged exactly once; what is not accepted is free again; no money moves by it."""

from __future__ import annotations

import pytest

from payments.models import PaymentTask
from returns.errors import Invalid, Missing, NotAllowed, Stale, WrongState
from returns.identity import operation_key
from returns.inspection import UnitFound, inspect
from returns.models import Inspection, RefundOperation
from returns.return_request import Goodwill, Item
from tests import factories
from tests.factories import line
from tests.oracle import nothing_changes, refused

pytestmark = pytest.mark.django_db

FIRST, SECOND = UnitFound("shirt", 1, "as new", restock=True), UnitFound("shirt", 2, "torn")


@pytest.fixture
def operation() -> RefundOperation:
    order = factories.OrderFactory.create(lines=[line("shirt", 2_000, 3)])
    return factories.received(order, items=(Item("shirt", quantity=2),))


def test_accepted_units_stay_and_rejected_ones_are_freed(operation: RefundOperation) -> None:
    inspect(
        operation_key=operation.operation_key,
        by=factories.desk(),
        accepted=[FIRST],
        rejected=[SECOND],
        note="one hole",
    )
    found = factories.fresh(operation)
    claims = {claim.unit: claim for claim in found.claims.select_related("finding")}
    assert found.state == "inspected"
    assert {unit: claim.live for unit, claim in claims.items()} == {1: True, 2: False}
    assert claims[1].finding.restock
    assert (claims[2].finding.accepted, claims[2].finding.condition) == (False, "torn")
    assert (found.inspection.inspected_by, found.inspection.note) == (factories.desk(), "one hole")
    assert found.events.latest("id").facts == {"accepted": 1, "rejected": 1}


def test_finding_goods_good_forces_no_refund(operation: RefundOperation) -> None:
    inspect(
        operation_key=operation.operation_key,
        by=factories.desk(),
        accepted=[FIRST, SECOND],
        rejected=[],
    )
    found = factories.fresh(operation)
    assert (found.amount_minor, found.order.balance.reserved_minor) == (None, 0)
    assert not PaymentTask.objects.exists()


def test_nothing_accepted_is_still_for_a_manager_to_close(operation: RefundOperation) -> None:
    inspect(
        operation_key=operation.operation_key,
        by=factories.desk(),
        accepted=[],
        rejected=[FIRST, SECOND],
    )
    found = factories.fresh(operation)
    assert (found.state, found.claims.filter(live=True).exists()) == ("inspected", False)


@pytest.mark.parametrize(
    ("accepted", "rejected", "complaint"),
    [
        ([FIRST], [], "shirt unit 2 is not judged."),
        ([], [], "shirt unit 1 is not judged."),
        ([FIRST, SECOND], [SECOND], "A unit is judged more than once."),
        ([FIRST, FIRST, SECOND], [], "A unit is judged more than once."),
        ([FIRST, SECOND, UnitFound("shirt", 3)], [], "shirt unit 3 is not part of this return."),
        ([FIRST, SECOND, UnitFound("sock", 1)], [], "sock unit 1 is not part of this return."),
    ],
)
def test_findings_must_name_every_unit_exactly_once(
    operation: RefundOperation,
    accepted: list[UnitFound],
    rejected: list[UnitFound],
    complaint: str,
) -> None:
    with refused(Invalid) as refusal:
        inspect(
            operation_key=operation.operation_key,
            by=factories.desk(),
            accepted=accepted,
            rejected=rejected,
        )
    assert complaint in refusal.value.fields["accepted"]


def test_the_same_findings_again_change_nothing(operation: RefundOperation) -> None:
    key = operation.operation_key
    inspect(operation_key=key, by=factories.desk(), accepted=[FIRST, SECOND], rejected=[])
    with nothing_changes():
        again = inspect(
            operation_key=key,
            by=factories.manager(),
            accepted=[SECOND, FIRST],
            rejected=[],
            seen_version=operation.version,
        )
    assert again.state == "inspected"
    assert Inspection.objects.count() == 1


def test_other_findings_after_the_inspection_are_refused(operation: RefundOperation) -> None:
    key = operation.operation_key
    inspect(operation_key=key, by=factories.desk(), accepted=[FIRST, SECOND], rejected=[])
    with refused(WrongState, code="wrong_state", state="inspected"):
        inspect(operation_key=key, by=factories.desk(), accepted=[FIRST], rejected=[SECOND])


def test_a_stale_view_is_refused_with_what_has_changed(operation: RefundOperation) -> None:
    with refused(Stale, code="stale", version=1, state="received", changed_by="desk"):
        inspect(
            operation_key=operation.operation_key,
            by=factories.desk(),
            accepted=[FIRST, SECOND],
            rejected=[],
            seen_version=0,
        )


def test_a_return_without_goods_is_inspected_with_empty_lists() -> None:
    operation = factories.received(items=(), goodwill=Goodwill("case-7", "5.00"))
    inspect(operation_key=operation.operation_key, by=factories.desk(), accepted=[], rejected=[])
    found = factories.fresh(operation)
    assert (found.state, found.claims.filter(live=True).count()) == ("inspected", 1)


@pytest.mark.parametrize("role", ["integration", "finance", "admin"])
def test_only_the_desk_and_managers_inspect(operation: RefundOperation, role: str) -> None:
    with refused(NotAllowed, code="role"):
        inspect(
            operation_key=operation.operation_key,
            by=factories.person("somebody", role),
            accepted=[FIRST, SECOND],
            rejected=[],
        )


def test_an_unknown_return_is_said_to_be_unknown() -> None:
    with refused(Missing, code="unknown_return"):
        inspect(
            operation_key=operation_key("W0", "shipping", 0),
            by=factories.desk(),
            accepted=[],
            rejected=[],
        )
