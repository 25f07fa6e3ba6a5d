"""Locks are taken in one order, really taken, and only inside a transaction."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from payments.models import PaymentTask
from payments.settlement import lock_task
from returns import locking
from returns.errors import Missing
from returns.models import Order, OrderBalance, RefundOperation
from tests import factories


def locked_tables(captured: CaptureQueriesContext) -> list[str]:
    """The tables whose rows were locked, in order."""
    statements = [query["sql"] for query in captured.captured_queries]
    return [
        found[1]
        for sql in statements
        if (found := re.search(r'FOR UPDATE OF "(\w+)"', sql)) is not None
    ]


@pytest.mark.django_db
def test_balance_then_operation_then_payment() -> None:
    task = factories.reserved().payments.get()
    with CaptureQueriesContext(connection) as captured:
        lock_task(task.pk)
    assert locked_tables(captured) == [
        "returns_orderbalance",
        "returns_refundoperation",
        "payments_paymenttask",
    ]


@pytest.mark.django_db
def test_rows_of_one_table_are_locked_in_the_order_of_their_keys() -> None:
    factories.reserved()
    factories.reserved()
    rows = locking.lock_rows(PaymentTask.objects.order_by("-created_at"))
    assert [row.pk for row in rows] == sorted(row.pk for row in rows)


@pytest.mark.django_db
def test_what_is_not_there_cannot_be_locked() -> None:
    with pytest.raises(Missing, match="no such return"):
        locking.lock_operation(key=uuid4())
    assert locking.lock_order(number="W0") is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "lock",
    [
        lambda: locking.lock_rows(RefundOperation.objects.all()),
        locking.hold_parents,
        lambda: locking.lock_operation(pk=1),
        lambda: locking.lock_order(number="W1"),
    ],
)
def test_a_lock_outside_a_transaction_is_refused(lock: Callable[[], object]) -> None:
    with pytest.raises(locking.NotInTransaction):
        lock()


@pytest.mark.django_db(transaction=True)
def test_a_locked_row_is_locked_for_everybody_else_until_the_commit() -> None:
    operation = factories.received()
    mine: list[type[OrderBalance] | type[RefundOperation]] = [OrderBalance, RefundOperation]
    with transaction.atomic():
        locking.lock_operation(key=operation.operation_key)
        assert [free_elsewhere(model) for model in [*mine, Order]] == [False, False, True]
    assert [free_elsewhere(model) for model in mine] == [True, True]


def free_elsewhere(model: type[OrderBalance] | type[RefundOperation] | type[Order]) -> bool:
    """Whether another connection gets the only row of a table at once."""

    def take() -> bool:
        try:
            with transaction.atomic():
                return len(model._default_manager.select_for_update(nowait=True)) == 1
        except OperationalError:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(take).result(10)
