"""Confirm an order: take it in as sold, once, and keep it so."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F

from returns import locking, money
from returns.errors import OrderChanged
from returns.models import (
    ExternalRefund,
    Order,
    OrderBalance,
    OrderLine,
    Tender,
    TenderBalance,
)
from returns.order_facts import OrderFacts, TenderFacts, refuse_contradictions
from returns.permissions import require
from returns.refundable import spread_order_discount
from returns.timeline import refusals_are_recorded


class Confirmed(StrEnum):
    """What confirming an order changed."""

    CREATED = "created"
    EXTENDED = "extended"
    UNCHANGED = "unchanged"


@refusals_are_recorded("confirm_order")
def confirm_order(*, number: str, facts: OrderFacts, by: User) -> tuple[Order, Confirmed]:
    """Create an order or make sure that it stands as given.

    New lines, tenders and past refunds extend it. Raises Invalid for facts that do not add up,
    OrderChanged when facts that returns or refunds already rest on would change.
    """
    require(by, "confirm_order")
    refuse_contradictions(facts, settings.PAYMENT_PROVIDERS)
    try:
        with transaction.atomic():
            return _confirm(number, facts)
    except IntegrityError:
        # Another request created the same order first; now it is there to compare with.
        with transaction.atomic():
            return _confirm(number, facts)


def clean_number(text: str) -> str:
    """An order number as stored: without blanks and the leading # that some shops print."""
    return text.strip().lstrip("#").strip()


def _confirm(number: str, facts: OrderFacts) -> tuple[Order, Confirmed]:
    locked = locking.lock_order(number=number)
    if locked is None:
        return _create(facts), Confirmed.CREATED
    balance, order = locked
    changed = _changed_facts(order, facts)
    if changed and (balance.refunded_minor or order.operations.exists()):
        raise OrderChanged(
            "Returns already rest on this order as it was sold. "
            "Record the difference as a goodwill return instead.",
            changed=changed,
        )
    told_more = _write_order(order, facts)
    if changed or _brings_new_rows(order, facts):
        _write_rows(order, facts, changed)
    elif not told_more:
        return order, Confirmed.UNCHANGED
    return order, Confirmed.EXTENDED


def _create(facts: OrderFacts) -> Order:
    order = Order.objects.create(
        number=facts.number, currency=facts.currency, **_order_fields(facts)
    )
    # By its id, so that the order handed back does not remember an empty balance.
    OrderBalance.objects.create(order_id=order.pk)
    _write_rows(order, facts, {})
    return order


def _write_rows(order: Order, facts: OrderFacts, changed: dict[str, Any]) -> None:
    _write_lines(order, facts, changed)
    _write_tenders(order, facts)
    _write_past_refunds(order, facts)
    _set_balances(order)


def _order_fields(facts: OrderFacts) -> dict[str, Any]:
    return {
        "placed_at": facts.placed_at,
        "customer_reference": facts.customer_reference,
        "customer_name": facts.customer_name,
        "customer_email": facts.customer_email,
        "shipping_minor": facts.shipping_minor,
        "delivered": facts.delivered,
    }


def _changed_facts(order: Order, facts: OrderFacts) -> dict[str, Any]:
    """Every sold fact that is stored and would become another, with both values."""
    changed: dict[str, Any] = {}
    if order.currency != facts.currency:
        changed["currency"] = [order.currency, facts.currency]
    if order.shipping_minor != facts.shipping_minor:
        changed["shipping"] = [order.shipping_minor, facts.shipping_minor]
    lines = {line.line_id: _line_values(line) for line in order.lines.all()}
    wanted = {row.line_id: _line_values(row) for row in _line_rows(order, facts)}
    tenders = {t.tender_id: _tender_values(t) for t in order.tenders.all()}
    given = {t.tender_id: _tender_values(t) for t in facts.tenders}
    for kind, old, new in (("line", lines, wanted), ("tender", tenders, given)):
        for name, values in old.items():
            if new.get(name) != values:
                changed[f"{kind} {name}"] = [values, new.get(name)]
    return changed | _changed_refunds(order, facts)


def _changed_refunds(order: Order, facts: OrderFacts) -> dict[str, Any]:
    """Every past refund that is stored with another amount."""
    stored = ExternalRefund.objects.filter(tender__order=order)
    amounts = {(r.tender.tender_id, r.reference): r for r in stored.select_related("tender")}
    changed: dict[str, Any] = {}
    for refund in facts.past_refunds:
        known = amounts.get((refund.tender_id, refund.reference))
        if known and known.amount_minor != refund.amount_minor:
            changed[f"refund {refund.reference}"] = [known.amount_minor, refund.amount_minor]
    return changed


def _line_values(line: OrderLine) -> list[int]:
    return [
        line.quantity,
        line.unit_price_minor,
        line.discount_minor,
        line.order_discount_minor,
        line.tax_minor,
    ]


def _tender_values(tender: Tender | TenderFacts) -> list[str | int]:
    return [tender.provider, tender.payment, tender.amount_minor]


def _line_rows(order: Order, facts: OrderFacts) -> list[OrderLine]:
    shares = spread_order_discount(facts.discount_minor, [line.total_minor for line in facts.lines])
    return [
        OrderLine(
            order=order,
            line_id=line.line_id,
            sku=line.sku,
            description=line.description,
            quantity=line.quantity,
            unit_price_minor=line.unit_price_minor,
            discount_minor=line.discount_minor,
            order_discount_minor=share,
            tax_minor=line.tax_minor,
        )
        for line, share in zip(facts.lines, shares, strict=True)
    ]


def _write_order(order: Order, facts: OrderFacts) -> bool:
    """Write what the order itself says; whether that is news."""
    fields = _order_fields(facts)
    if all(getattr(order, name) == value for name, value in fields.items()):
        return False
    Order.objects.filter(pk=order.pk).update(**fields, facts_version=F("facts_version") + 1)
    return True


def _write_lines(order: Order, facts: OrderFacts, changed: dict[str, Any]) -> None:
    rows = _line_rows(order, facts)
    gone = [name for name in changed if changed[name][1] is None]
    if gone:
        raise OrderChanged("A confirmed order never loses a line or a tender.", missing=gone)
    OrderLine.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["order", "line_id"],
        update_fields=[
            "sku",
            "description",
            "quantity",
            "unit_price_minor",
            "discount_minor",
            "order_discount_minor",
            "tax_minor",
        ],
    )
    if changed:
        Order.objects.filter(pk=order.pk).update(facts_version=F("facts_version") + 1)


def _write_tenders(order: Order, facts: OrderFacts) -> None:
    Tender.objects.bulk_create(
        [
            Tender(
                order=order,
                tender_id=tender.tender_id,
                provider=tender.provider,
                payment=tender.payment,
                label=tender.label,
                amount_minor=tender.amount_minor,
            )
            for tender in facts.tenders
        ],
        update_conflicts=True,
        unique_fields=["order", "tender_id"],
        update_fields=["provider", "payment", "label", "amount_minor"],
    )
    TenderBalance.objects.bulk_create(
        [TenderBalance(tender=tender) for tender in order.tenders.all()], ignore_conflicts=True
    )


def _write_past_refunds(order: Order, facts: OrderFacts) -> None:
    if not facts.past_refunds:
        return
    tenders = {tender.tender_id: tender for tender in order.tenders.all()}
    ExternalRefund.objects.bulk_create(
        [
            ExternalRefund(
                tender=tenders[refund.tender_id],
                reference=refund.reference,
                amount_minor=refund.amount_minor,
                source=ExternalRefund.Source.ORDER_HISTORY,
            )
            for refund in facts.past_refunds
        ],
        ignore_conflicts=True,
    )


def _set_balances(order: Order) -> None:
    """Captured is the sum of the tenders; past refunds count as refunded beside our own."""
    captured = refunded_before = 0
    for tender in order.tenders.select_related("balance").prefetch_related("external_refunds"):
        external = sum(refund.amount_minor for refund in tender.external_refunds.all())
        balance = tender.balance
        ours = balance.refunded_minor - balance.external_minor
        if balance.reserved_minor + ours + external > tender.amount_minor:
            remaining = money.plain(balance.remaining_minor, order.currency)
            raise OrderChanged(
                f"Only {order.currency} {remaining} of tender {tender.tender_id} is left; the rest "
                "is refunded or reserved here. Somebody must look at both.",
                remaining=remaining,
                currency=order.currency,
            )
        TenderBalance.objects.filter(pk=balance.pk).exclude(
            captured_minor=tender.amount_minor, external_minor=external
        ).update(
            captured_minor=tender.amount_minor,
            external_minor=external,
            refunded_minor=ours + external,
        )
        captured += tender.amount_minor
        refunded_before += external
    whole = OrderBalance.objects.get(order=order)
    OrderBalance.objects.filter(pk=whole.pk).exclude(
        captured_minor=captured, external_minor=refunded_before
    ).update(
        captured_minor=captured,
        external_minor=refunded_before,
        refunded_minor=whole.refunded_minor - whole.external_minor + refunded_before,
    )


def _brings_new_rows(order: Order, facts: OrderFacts) -> bool:
    lines = {line.line_id for line in order.lines.all()}
    tenders = {tender.tender_id for tender in order.tenders.all()}
    refunds = set(
        ExternalRefund.objects.filter(tender__order=order).values_list(
            "tender__tender_id", "reference"
        )
    )
    return bool(
        {line.line_id for line in facts.lines} - lines
        or {tender.tender_id for tender in facts.tenders} - tenders
        or {(refund.tender_id, refund.reference) for refund in facts.past_refunds} - refunds
    )
