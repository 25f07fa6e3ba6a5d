"""Which claims a request comes to, and which of them are free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from returns import identity, money
from returns.errors import Invalid, UnitsClaimed
from returns.models import Claim, Order, OrderLine
from returns.return_request import Goodwill, Item, ReturnRequest


@dataclass
class Wanted:
    """The claims that a request comes to, by subject."""

    claims: dict[str, Claim] = field(default_factory=dict)

    def add(self, claim: Claim) -> None:
        self.claims[claim.subject] = claim

    @property
    def subjects(self) -> set[str]:
        return set(self.claims)


def wanted_claims(order: Order, request: ReturnRequest, live: dict[str, Claim]) -> Wanted:
    wanted = Wanted()
    lines = {line.line_id: line for line in order.lines.all()}
    for item in request.items:
        line = lines.get(item.line)
        if line is None:
            raise Invalid({"items": f"Order {order.number} has no line {item.line}."})
        for unit in _units(item, line, live, additional=request.additional):
            wanted.add(_unit_claim(order, line, unit))
    if request.shipping:
        wanted.add(_shipping_claim(order))
    if request.goodwill:
        wanted.add(_goodwill_claim(order, request.goodwill))
    return wanted


def _units(
    item: Item, line: OrderLine, live: dict[str, Claim], *, additional: bool
) -> Iterator[int]:
    """The unit numbers an item means. Raises Invalid or, when not enough are free, UnitsClaimed."""
    quantity = item.quantity or len(item.units)
    beyond = [unit for unit in item.units if not 1 <= unit <= line.quantity]
    if beyond or quantity > line.quantity:
        raise Invalid(
            {"items": f"Line {line.line_id} has {line.quantity} unit(s), numbered from 1."}
        )
    if item.units:
        yield from item.units
        return
    if not additional:
        yield from range(1, quantity + 1)
        return
    free = free_units(line, live)
    if len(free) < quantity:
        taken = [live[s] for s in _line_subjects(line) if s in live]
        raise UnitsClaimed(
            f"Only {len(free)} of {line.quantity} unit(s) of {line.line_id} are free.",
            conflicts=[conflict(claim) for claim in taken],
            free_units={line.line_id: free},
        )
    yield from free[:quantity]


def free_units(line: OrderLine, live: dict[str, Claim]) -> list[int]:
    """The unit numbers of a line that no live operation claims."""
    subjects = enumerate(_line_subjects(line), start=1)
    return [unit for unit, subject in subjects if subject not in live]


def _line_subjects(line: OrderLine) -> list[str]:
    return [identity.unit_subject(line.line_id, unit) for unit in range(1, line.quantity + 1)]


def _unit_claim(order: Order, line: OrderLine, unit: int) -> Claim:
    return Claim(
        order=order,
        subject=identity.unit_subject(line.line_id, unit),
        kind=Claim.Kind.LINE,
        line=line,
        unit=unit,
        amount_minor=line.unit_values_minor[unit - 1],
    )


def _shipping_claim(order: Order) -> Claim:
    if order.shipping_minor == 0:
        raise Invalid({"shipping": f"Order {order.number} had no shipping charge."})
    return Claim(
        order=order,
        subject=identity.SHIPPING,
        kind=Claim.Kind.SHIPPING,
        amount_minor=order.shipping_minor,
    )


def _goodwill_claim(order: Order, goodwill: Goodwill) -> Claim:
    try:
        amount_minor = money.parse(goodwill.amount, order.currency)
    except money.NotMoney as error:
        raise Invalid({"goodwill": str(error)}) from error
    if amount_minor == 0:
        raise Invalid({"goodwill": "The amount must be above zero."})
    return Claim(
        order=order,
        subject=identity.goodwill_subject(goodwill.case),
        kind=Claim.Kind.GOODWILL,
        amount_minor=amount_minor,
    )


def conflict(claim: Claim) -> dict[str, Any]:
    """Which operation holds a subject, in the words of the API."""
    return {
        "line": claim.line.line_id if claim.line else None,
        "unit": claim.unit,
        "subject": claim.subject,
        "operation": str(claim.operation.operation_key),
        "reference": claim.operation.reference,
    }


def live_claims(order: Order) -> dict[str, Claim]:
    """Every live claim on an order by subject, each with its operation and line."""
    rows = order.claims.filter(live=True).select_related("operation__order", "line")
    return {claim.subject: claim for claim in rows}
