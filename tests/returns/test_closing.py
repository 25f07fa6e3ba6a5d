"""A return can end unpaid only while no money is reserved or gone, and then its goods are free."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from returns.closing import reject, withdraw
from returns.errors import Invalid, NotAllowed, Stale, WrongState
from returns.models import Order, RefundOperation
from tests import factories
from tests.factories import cash, line
from tests.oracle import nothing_changes, refused

pytestmark = pytest.mark.django_db

Make = Callable[[], RefundOperation]


def half_approved() -> RefundOperation:
    """Above the single limit: one manager has agreed, the second has not."""
    order = factories.OrderFactory.create(lines=[line(price_minor=600_000)])
    operation = factories.reserved(order)
    assert operation.state == "approved"
    return operation


def cash_order() -> Order:
    return factories.OrderFactory.create(tenders=[cash(10_000)])


STILL_OPEN = [factories.received, factories.inspected, half_approved]
TOO_LATE = [
    pytest.param(factories.reserved, id="reserved"),
    pytest.param(lambda: factories.paid(cash_order()), id="paid"),
]


def reject_as_manager(operation: RefundOperation, reason: str = "worn") -> RefundOperation:
    return reject(
        operation_key=operation.operation_key, by=factories.second_manager(), reason=reason
    )


def withdraw_at_desk(operation: RefundOperation, reason: str = "") -> RefundOperation:
    return withdraw(operation_key=operation.operation_key, by=factories.desk(), reason=reason)


@pytest.mark.parametrize("make", STILL_OPEN)
@pytest.mark.parametrize(
    ("close", "state"), [(reject_as_manager, "rejected"), (withdraw_at_desk, "cancelled")]
)
def test_closing_frees_the_goods_and_keeps_the_money(
    make: Make, close: Callable[[RefundOperation], RefundOperation], state: str
) -> None:
    operation = close(make())
    stored = factories.fresh(operation)
    assert (stored.state, stored.claims.filter(live=True).count()) == (state, 0)
    assert stored.order.balance.reserved_minor == 0
    event = stored.events.latest("id")
    assert (event.verb, event.to_state) == ("reject" if state == "rejected" else "withdraw", state)


@pytest.mark.parametrize("make", TOO_LATE)
def test_money_on_its_way_cannot_be_closed_away(make: Make) -> None:
    operation = make()
    with refused(WrongState, state=operation.state):
        reject_as_manager(operation)
    with refused(WrongState, state=operation.state):
        withdraw_at_desk(operation)


@pytest.mark.parametrize("close", [reject_as_manager, withdraw_at_desk])
def test_closing_again_in_the_same_words_changes_nothing(
    close: Callable[[RefundOperation, str], RefundOperation],
) -> None:
    operation = factories.received()
    closed = close(operation, "worn")
    with nothing_changes():
        assert close(operation, "worn").state == closed.state
    with refused(WrongState, state=closed.state):
        close(operation, "for another reason")


def test_a_rejected_return_is_not_withdrawn_as_well() -> None:
    operation = factories.received()
    reject_as_manager(operation)
    with refused(WrongState, state="rejected"):
        withdraw_at_desk(operation)


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_rejection_needs_a_reason(reason: str) -> None:
    operation = factories.received()
    with refused(Invalid) as refusal:
        reject_as_manager(operation, reason)
    assert list(refusal.value.fields) == ["reason"]


def test_nobody_rejects_what_they_took_in_themselves() -> None:
    operation = factories.received(by=factories.manager())
    with refused(NotAllowed, code="own_intake"):
        reject(operation_key=operation.operation_key, by=factories.manager(), reason="worn")


def test_nobody_rejects_what_they_inspected_or_joined() -> None:
    operation = factories.inspected(by=factories.person("clerk", "desk"))
    both = factories.person("desk", "desk", "manager")
    with refused(NotAllowed, code="own_intake"):
        reject(operation_key=operation.operation_key, by=both, reason="worn")
    third = factories.second_manager()
    factories.received(operation.order, by=third)
    with refused(NotAllowed, code="own_intake"):
        reject(operation_key=operation.operation_key, by=third, reason="worn")


def test_the_desk_rejects_nothing_and_finance_withdraws_nothing() -> None:
    operation = factories.received()
    with refused(NotAllowed, code="role"):
        reject(operation_key=operation.operation_key, by=factories.desk(), reason="worn")
    with refused(NotAllowed, code="role"):
        withdraw(operation_key=operation.operation_key, by=factories.finance())


def test_a_decision_on_an_older_view_is_refused_with_what_has_changed() -> None:
    seen = factories.received()
    factories.inspected(seen.order)
    with refused(Stale, code="stale", version=2, state="inspected", change="inspect"):
        withdraw(operation_key=seen.operation_key, by=factories.desk(), seen_version=seen.version)
    with refused(Stale):
        reject(
            operation_key=seen.operation_key,
            by=factories.manager(),
            reason="worn",
            seen_version=seen.version,
        )
