"""The only place that takes locks, and the order in which those of rows are taken.

    ProviderEvent, BatchItem -> OrderBalance -> Order -> RefundOperation -> PaymentTask, ErpPosting

The order itself is locked only while its facts change. Everybody else takes a share of it when the
foreign keys of their rows are checked, at the latest at the commit; hence its place in the order.
An item of the queue of mismatches is locked alone: whoever holds it asks for none of these.
A lock of a row outside a transaction protects nothing, so it is refused. `only_one` is for work
that spans many transactions; whoever holds it may lock rows, never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from uuid import UUID

from django.db import Error, connection, models, transaction
from django.db.models import QuerySet

from returns.errors import Missing
from returns.models import Order, OrderBalance, RefundOperation

Row = TypeVar("Row", bound=models.Model)


class NotInTransaction(RuntimeError):
    """A lock was asked for outside a transaction."""


def lock_rows(rows: QuerySet[Row]) -> list[Row]:
    """Lock and read the rows of a queryset, in the order of their primary keys."""
    _refuse_outside_transaction()
    return list(rows.order_by("pk").select_for_update(of=("self",)))


def lock_order(*, number: str) -> tuple[OrderBalance, Order] | None:
    """Lock an order with its balance, against new returns and other changes of its facts."""
    balances = lock_rows(OrderBalance.objects.filter(order__number__iexact=number))
    if not balances:
        return None
    return balances[0], _one(Order.objects.filter(pk=balances[0].order_id))


@contextmanager
def only_one(work: str) -> Iterator[bool]:
    """Be the only one at some long work; yields False when somebody else is at it.

    The lock belongs to the database connection, so it ends with its holder, however that ends. It
    needs a connection that stays: a pooler that hands out connections per transaction breaks it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [work])
        (mine,) = cursor.fetchone()
    try:
        yield mine
    finally:
        # On a connection that is lost the lock is gone as well.
        with suppress(Error):
            if mine:
                _let_go(work)


def _let_go(work: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [work])


def hold_parents() -> None:
    """Check foreign keys now and not at the commit: nobody locks what our rows rest on any more."""
    _refuse_outside_transaction()
    transaction.get_connection().check_constraints()


def lock_operation(
    *, key: UUID | None = None, pk: int | None = None
) -> tuple[OrderBalance, RefundOperation]:
    """Lock an operation together with the balance it draws on, in the lock order.

    Raises Missing when there is no such operation.
    """
    mine = {"operation_key": key} if key is not None else {"pk": pk}
    balances = OrderBalance.objects.filter(
        order__operations__in=RefundOperation.objects.filter(**mine)
    )
    balance = _one(balances)
    return balance, _one(RefundOperation.objects.select_related("order").filter(**mine))


def _one(rows: QuerySet[Row]) -> Row:
    found = lock_rows(rows)
    if not found:
        raise Missing("There is no such return.", code="unknown_return")
    return found[0]


def _refuse_outside_transaction() -> None:
    if not transaction.get_connection().in_atomic_block:
        raise NotInTransaction("locks are taken inside a transaction")
