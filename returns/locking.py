"""The only place that takes row locks, and the order in which they are taken.

    OrderBalance -> RefundOperation -> PaymentTask / ErpPosting

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


def lock_order(*, number: str) -> Order | None:
    """Lock an order against new returns and against other changes of its facts."""
    return next(iter(lock_rows(Order.objects.filter(number__iexact=number))), None)


def lock_balance(*, order_id: int) -> OrderBalance:
    """Lock the balance of an order: first in the lock order."""
    return _one(OrderBalance.objects.filter(order_id=order_id))


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
