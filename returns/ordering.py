"""Confirm an order: take it in as sold, once, and keep it so."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
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
from returns.order_facts import OrderFacts, refuse_contradictions
from returns.order_rows import OrderRows
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.timeline import refusals_are_recorded


class Confirmed(StrEnum):
    """What confirming an order changed."""

    CREATED = "created"
    EXTENDED = "extended"
    UNCHANGED = "unchanged"


@refusals_are_recorded("confirm_order")
@database_work_is_retried
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
    facts = _without_our_refunds(order, facts)
    stored, given = OrderRows.stored(order), OrderRows.given(order, facts)
    changed = _changed_facts(order, facts, stored, given)
    if changed and (balance.refunded_minor or order.operations.exists()):
        raise OrderChanged(
            "Returns already rest on this order as it was sold. "
            "Record the difference as a goodwill return instead.",
            changed=changed,
        )
    gone = [name for name in changed if changed[name][1] is None]
    if gone:
        raise OrderChanged("A confirmed order never loses a line or a tender.", missing=gone)
    told_more = _write_order(order, facts)
    if changed or given.names - stored.names:
        _write_rows(given)
        _set_balances(order)
    elif not told_more:
        return order, Confirmed.UNCHANGED
    if changed:
        Order.objects.filter(pk=order.pk).update(facts_version=F("facts_version") + 1)
    return order, Confirmed.EXTENDED


def _create(facts: OrderFacts) -> Order:
    order = Order.objects.create(
        number=facts.number, currency=facts.currency, **_order_fields(facts)
    )
    _write_rows(OrderRows.given(order, facts))
    refunded_minor = sum(refund.amount_minor for refund in facts.past_refunds)
    # By its id, so that the order handed back reads its balance when it is asked for it.
    OrderBalance.objects.create(
        order_id=order.pk,
        captured_minor=sum(tender.amount_minor for tender in facts.tenders),
        external_minor=refunded_minor,
        refunded_minor=refunded_minor,
    )
    return order


def _without_our_refunds(order: Order, facts: OrderFacts) -> OrderFacts:
    """The facts less what we have paid back ourselves: a shop's own history lists that as well."""
    if not facts.past_refunds:
        return facts
    ours = set(order.tenders.values_list("tender_id", "payments__provider_refund"))
    others = [past for past in facts.past_refunds if (past.tender_id, past.reference) not in ours]
    return replace(facts, past_refunds=tuple(others))


def _order_fields(facts: OrderFacts) -> dict[str, Any]:
    return {
        "placed_at": facts.placed_at,
        "customer_reference": facts.customer_reference,
        "customer_name": facts.customer_name,
        "customer_email": facts.customer_email,
        "shipping_minor": facts.shipping_minor,
        "delivered": facts.delivered,
    }


def _changed_facts(
    order: Order, facts: OrderFacts, stored: OrderRows, given: OrderRows
) -> dict[str, Any]:
    """Every sold fact that is stored and would become another, with both values."""
    changed: dict[str, Any] = {}
    if order.currency != facts.currency:
        changed["currency"] = [order.currency, facts.currency]
    if order.shipping_minor != facts.shipping_minor:
        changed["shipping"] = [order.shipping_minor, facts.shipping_minor]
    new = given.sold_facts
    for name, values in stored.sold_facts.items():
        if new.get(name) != values:
            changed[name] = [values, new.get(name)]
    # A past refund may be left out; it is only never another amount.
    known = stored.refund_amounts_minor
    for key, amount_minor in given.refund_amounts_minor.items():
        if known.get(key, amount_minor) != amount_minor:
            changed[f"refund {key[1]}"] = [known[key], amount_minor]
    return changed


def _write_order(order: Order, facts: OrderFacts) -> bool:
    """Write what the order itself says; whether that is news."""
    fields = _order_fields(facts)
    if all(getattr(order, name) == value for name, value in fields.items()):
        return False
    Order.objects.filter(pk=order.pk).update(**fields, facts_version=F("facts_version") + 1)
    return True


def _write_rows(given: OrderRows) -> None:
    """Write lines and tenders anew, and what is new among balances and refunds."""
    OrderLine.objects.bulk_create(
        given.lines,
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
    Tender.objects.bulk_create(
        given.tenders,
        update_conflicts=True,
        unique_fields=["order", "tender_id"],
        update_fields=["provider", "payment", "label", "amount_minor"],
    )
    ExternalRefund.objects.bulk_create(given.refunds, ignore_conflicts=True)
    refunded_minor: Counter[str] = Counter()
    for refund in given.refunds:
        refunded_minor[refund.tender.tender_id] += refund.amount_minor
    TenderBalance.objects.bulk_create(
        [
            TenderBalance(
                tender=tender,
                captured_minor=tender.amount_minor,
                external_minor=refunded_minor[tender.tender_id],
                refunded_minor=refunded_minor[tender.tender_id],
            )
            for tender in given.tenders
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
