"""Mismatches as runs and sweeps open them: small books that differ, compared."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import QuerySet

from reconciliation.models import Mismatch
from reconciliation.runs import reconcile
from tests.reconciliation.small_books import (
    Books,
    Credit,
    Line,
    Operation,
    Payment,
    day,
    key,
    write,
)


def payment_without_operation(minor: int = 6_450, refund: str = "re_loose") -> Mismatch:
    """A refund at the provider that no return of ours knows, EUR."""
    write(Books(lines=[Line(refund, minor, 0)]))
    return compared().get(line__refund=refund)


def amounts_differ(differences: Sequence[int], currency: str = "EUR") -> list[Mismatch]:
    """One paid and posted operation per difference, of which the provider lists that much more."""
    write(
        Books(
            operations=[Operation((Payment(500, 0),), currency) for _ in differences],
            lines=[
                Line(f"re_{n}_0", 500 + minor, 0, currency) for n, minor in enumerate(differences)
            ],
            credits=[Credit(str(key(n)), 500, 0, currency) for n in range(len(differences))],
        )
    )
    return list(compared().order_by("payment_id"))


def damaged_reference(operation_key: str) -> Mismatch:
    """A refund at the provider with all but the end of an operation's key."""
    write(Books(lines=[Line("re_cut", 700, 0, operation=operation_key[:-4])]))
    return compared().get(line__refund="re_cut")


def compared() -> QuerySet[Mismatch]:
    """The open items after a run over the first days."""
    reconcile(first=day(0), last=day(5), by=None, collect=lambda *_: None)
    return Mismatch.objects.filter(status=Mismatch.Status.OPEN)
