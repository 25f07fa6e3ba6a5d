"""The facts of an order as sold, and what about them cannot be true. Pure, minor units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from returns import money
from returns.errors import Invalid
from returns.identity import NAME_RULE, is_name
from returns.refundable import line_total

LONGEST_NAME = 64
_NAME_RULE = f"use 1 to {LONGEST_NAME} {NAME_RULE}."
# A sanity bound: one row per unit is created when a whole line comes back.
MOST_UNITS_A_LINE = 10_000


@dataclass(frozen=True)
class LineFacts:
    """A line as sold; discount and tax are for the whole line, minor units."""

    line_id: str
    sku: str
    description: str
    quantity: int
    unit_price_minor: int
    discount_minor: int = 0
    tax_minor: int = 0

    @property
    def total_minor(self) -> int:
        return line_total(
            quantity=self.quantity,
            unit_price_minor=self.unit_price_minor,
            discount_minor=self.discount_minor,
            order_discount_minor=0,
            tax_minor=self.tax_minor,
        )


@dataclass(frozen=True)
class TenderFacts:
    """One captured payment, minor units."""

    tender_id: str
    provider: str
    payment: str
    amount_minor: int
    label: str = ""


@dataclass(frozen=True)
class PastRefund:
    """Money of a tender that had already gone back before the order reached us."""

    tender_id: str
    reference: str
    amount_minor: int


@dataclass(frozen=True)
class OrderFacts:
    """An order as sold, amounts in minor units. `discount_minor` is for the whole order."""

    number: str
    currency: str
    placed_at: datetime
    lines: tuple[LineFacts, ...]
    tenders: tuple[TenderFacts, ...]
    shipping_minor: int = 0
    discount_minor: int = 0
    customer_reference: str = ""
    customer_name: str = ""
    customer_email: str = ""
    delivered: bool = True
    past_refunds: tuple[PastRefund, ...] = ()

    @property
    def lines_minor(self) -> int:
        return sum(line.total_minor for line in self.lines)

    @property
    def total_minor(self) -> int:
        return self.lines_minor + self.shipping_minor - self.discount_minor


def refuse_contradictions(facts: OrderFacts, providers: Collection[str]) -> None:
    """Raises Invalid, naming every fact that contradicts another.

    `providers` are the names of the payment providers that can be paid back through.
    """
    complaints: dict[str, Any] = {}
    if not is_name(facts.number, LONGEST_NAME):
        complaints["number"] = f"“{facts.number}”: {_NAME_RULE}"
    if not money.known(facts.currency):
        complaints["currency"] = f"“{facts.currency}” is not an ISO 4217 currency."
    _complain(complaints, "lines", _line_complaints(facts))
    _complain(complaints, "tenders", _tender_complaints(facts, providers))
    if not complaints and sum(t.amount_minor for t in facts.tenders) != facts.total_minor:
        paid = money.plain(sum(t.amount_minor for t in facts.tenders), facts.currency)
        owed = money.plain(facts.total_minor, facts.currency)
        complaints["tenders"] = f"Tenders add up to {paid}, lines and shipping to {owed}."
    if complaints:
        raise Invalid(complaints)


def _complain(complaints: dict[str, Any], field: str, found: Iterable[str]) -> None:
    sentences = list(found)
    if sentences:
        complaints[field] = sentences


def _line_complaints(facts: OrderFacts) -> Iterable[str]:
    if not facts.lines:
        yield "An order has at least one line."
    yield from _identifier_complaints([line.line_id for line in facts.lines])
    for line in facts.lines:
        if not 1 <= line.quantity <= MOST_UNITS_A_LINE:
            yield f"{line.line_id}: quantity must be 1 to {MOST_UNITS_A_LINE}."
        elif min(line.unit_price_minor, line.discount_minor, line.tax_minor) < 0:
            yield f"{line.line_id}: amounts cannot be negative."
        elif line.total_minor < 0:
            yield f"{line.line_id}: the discount is larger than the line."
    if min(facts.shipping_minor, facts.discount_minor) < 0:
        yield "Shipping and discount cannot be negative."
    if facts.discount_minor > facts.lines_minor:
        yield "The discount is larger than the lines."


def _tender_complaints(facts: OrderFacts, providers: Collection[str]) -> Iterable[str]:
    if not facts.tenders:
        yield "An order has at least one tender."
    yield from _identifier_complaints([tender.tender_id for tender in facts.tenders])
    for tender in facts.tenders:
        if tender.provider not in providers:
            known = ", ".join(sorted(providers))
            yield f"{tender.tender_id}: unknown provider “{tender.provider}” (known: {known})."
        if tender.amount_minor <= 0:
            yield f"{tender.tender_id}: the amount must be above zero."
        if not tender.payment:
            yield f"{tender.tender_id}: say what the provider calls the payment."
    captured = {tender.tender_id: tender.amount_minor for tender in facts.tenders}
    gone: Counter[str] = Counter()
    for refund in facts.past_refunds:
        gone[refund.tender_id] += refund.amount_minor
        if refund.amount_minor <= 0:
            yield f"{refund.reference}: the amount must be above zero."
        elif gone[refund.tender_id] > captured.get(refund.tender_id, 0):
            yield f"{refund.reference}: refunds more than tender {refund.tender_id} captured."


def _identifier_complaints(names: list[str]) -> Iterable[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{name}: given {times} times."
        if not is_name(name, LONGEST_NAME):
            yield f"“{name}”: {_NAME_RULE}"
