"""The only place that takes row locks, and the order in which they are taken.

    ProviderEvent, BatchItem -> OrderBalance -> Order -> RefundOperation -> PaymentTask, ErpPosting

The order itself is locked only while its facts change. Everybody else takes a share of it when the
foreign keys of their rows are checked, at the latest at the commit; hence its place in the order.
A lock outside a transaction protects nothing, so it is refused.
"""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from django.db import models, transaction
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
