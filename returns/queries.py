"""What pages and the API read. The number of SQL statements never depends on the number of rows.

Facts of later stages (approvals, payments, the ERP posting) are reached by reverse relations.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias, TypedDict
from uuid import UUID

from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from returns import money
from returns.claiming import live_claims
from returns.models import (
    Claim,
    IntakeMessage,
    OperationEvent,
    Order,
    OrderLine,
    RefundOperation,
    Tender,
)
from returns.states import ENDED

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class Worth(TypedDict):
        """What the database adds to an operation: `worth_minor`, minor units."""

        worth_minor: int

    OperationRow: TypeAlias = WithAnnotations[RefundOperation, Worth]

# Eighteen digits fit a signed 64-bit integer.
_REFERENCE = re.compile(r"R-(?P<number>[0-9]{1,18})", re.IGNORECASE)


@dataclass(frozen=True)
class UnitFacts:
    """One unit of a line: its number, what it is worth back (minor units), and who claims it.

    `claim` is the live claim with its operation and that operation's taker-in, or None.
    """

    unit: int
    value_minor: int
    claim: Claim | None

    @property
    def operation(self) -> RefundOperation | None:
        return self.claim.operation if self.claim else None


@dataclass(frozen=True)
class LineUnits:
    """A line with all its units, unit 1 first."""

    line: OrderLine
    units: tuple[UnitFacts, ...]

    @property
    def free(self) -> list[int]:
        """The unit numbers that no live operation claims."""
        return [unit.unit for unit in self.units if unit.claim is None]


def order_by_number(number: str) -> Order | None:
    """An order with its balance, lines and tenders with their balances; any letter case."""
    if "\x00" in number:  # PostgreSQL cannot even be asked about such text.
        return None
    return (
        Order.objects.select_related("balance")
        .prefetch_related(
            Prefetch("lines", OrderLine.objects.order_by("pk")),
            Prefetch("tenders", Tender.objects.select_related("balance").order_by("pk")),
        )
        .filter(number__iexact=number)
        .first()
    )


def units_of(order: Order) -> list[LineUnits]:
    """Every unit of every line, with its worth and the live claim on it. One statement."""
    claims = live_claims(order)
    by_unit = {(claim.line_id, claim.unit): claim for claim in claims.values()}
    return [
        LineUnits(
            line,
            tuple(
                UnitFacts(unit, value_minor, by_unit.get((line.pk, unit)))
                for unit, value_minor in enumerate(line.unit_values_minor, start=1)
            ),
        )
        for line in order.lines.all()
    ]


def operations(
    *,
    state: str = "",
    order: str = "",
    updated_since: datetime | None = None,
) -> QuerySet[OperationRow]:
    """Operations for a list: order, balance, taker-in, payments, `worth_minor`; oldest first.

    `worth_minor` is what its live claims are worth, or what an ended one had claimed.
    """
    rows = (
        RefundOperation.objects.select_related("order__balance", "taken_in_by")
        .prefetch_related("payments")
        .annotate(worth_minor=_worth())
        .order_by("pk")
    )
    if state:
        rows = rows.filter(state=state)
    if order:
        rows = rows.filter(order__number__iexact=order)
    if updated_since:
        rows = rows.filter(state_changed_at__gte=updated_since)
    return rows


def operations_with_claims() -> QuerySet[OperationRow]:
    """The same, each with its claims and what the inspection found about them."""
    claims = Claim.objects.select_related("line", "finding").order_by("pk")
    return operations().prefetch_related(Prefetch("claims", claims))


def operation_by_key(key: UUID) -> OperationRow | None:
    """One operation with everything there is to show about it, or None."""
    return _complete().filter(operation_key=key).first()


def operation_by_reference(reference: str) -> OperationRow | None:
    """The same by the short reference (R-2841), any letter case."""
    match = _REFERENCE.fullmatch(reference)
    return _complete().filter(pk=int(match["number"])).first() if match else None


def key_of(name: str) -> UUID | None:
    """The permanent key of the operation called this, by key or by short reference; or None."""
    match = _REFERENCE.fullmatch(name)
    if match is None and not _is_key(name):
        return None
    named = Q(pk=int(match["number"])) if match else Q(operation_key=name)
    return RefundOperation.objects.filter(named).values_list("operation_key", flat=True).first()


def operations_named(names: Collection[str]) -> dict[str, RefundOperation]:
    """The operations called these, by key or by short reference; what does not exist is left out.

    One statement, however many.
    """
    numbers = {
        name: int(found["number"]) for name in names if (found := _REFERENCE.fullmatch(name))
    }
    keys = {name: UUID(name) for name in names if name not in numbers and _is_key(name)}
    rows = RefundOperation.objects.filter(
        Q(pk__in=numbers.values()) | Q(operation_key__in=keys.values())
    )
    by_either: dict[int | UUID, RefundOperation] = {}
    for row in rows:
        by_either |= {row.pk: row, row.operation_key: row}
    called = numbers | keys
    return {name: by_either[called[name]] for name in called if called[name] in by_either}


def in_major(facts: dict[str, object], currency: str) -> dict[str, object]:
    """The facts of an event with every amount as text in major units: amount_minor -> amount."""
    shown: dict[str, object] = {}
    for name, value in facts.items():
        if name.endswith("_minor") and isinstance(value, int):
            shown[name.removesuffix("_minor")] = money.plain(value, currency)
        elif name == "tenders" and isinstance(value, dict):
            shown[name] = {tender: money.plain(part, currency) for tender, part in value.items()}
        else:
            shown[name] = value
    return shown


def _complete() -> QuerySet[OperationRow]:
    return operations_with_claims().prefetch_related(
        Prefetch("messages", IntakeMessage.objects.select_related("submitted_by").order_by("pk")),
        "inspection__inspected_by",
        "approvals__approved_by",
        "payments__tender",
        "posting",
        Prefetch("events", OperationEvent.objects.select_related("by").order_by("pk")),
    )


def _worth() -> Coalesce:
    claims = Claim.objects.filter(
        Q(live=True) | Q(operation__state__in=sorted(ENDED)), operation=OuterRef("pk")
    )
    total = claims.values("operation").annotate(total=Sum("amount_minor")).values("total")
    return Coalesce(Subquery(total), Value(0))


def _is_key(name: str) -> bool:
    try:
        return str(UUID(name)) == name.lower()
    except ValueError:
        return False
