"""The retail orders of the tau-bench benchmark, mapped to the product's own order body.

Amounts are US dollars in major units; there is no tax, discount or shipping; an item without a
quantity is one unit; the history of payments holds refunds that have already happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from returns.importing.reading import TAU_RETAIL, Broken, Entry, entries, keyed_objects
from returns.importing.rows import Row

CURRENCY = "USD"
# The data knows no dates. One day stands for all, so that a second import finds nothing changed.
PLACED_AT = "2024-05-01T00:00:00Z"
# `pending` and `processed` have not reached the customer; `cancelled` never will.
DELIVERED = "delivered"

# Prefix of the payment method -> (provider, label). Only card payments have an adapter that can
# pay them back; a PayPal payment or a gift card is paid back by a person, who then says so.
_METHODS = {
    "credit_card_": ("stripe", "Card"),
    "paypal_": ("manual", "PayPal"),
    "gift_card_": ("manual", "Gift card"),
}

Customers = Mapping[str, Mapping[str, Any]]


class Unmapped(ValueError):
    """An order that is not what this format promises; the text says where."""


def rows(path: Path, customers_path: Path | None = None) -> Iterator[Row | Broken]:
    """Every order of a file, with the customers of another if given. Raises NotReadable."""
    customers = keyed_objects(customers_path) if customers_path else {}
    for entry in entries(path, TAU_RETAIL):
        if isinstance(entry, Broken):
            yield entry
            continue
        try:
            yield _row(entry, customers)
        except Unmapped as error:
            yield Broken(entry.place, str(error))


def _row(entry: Entry, customers: Customers) -> Row:
    match entry.document:
        case {
            "order_id": str(number),
            "user_id": str(user),
            "status": str(status),
            "items": list(items),
            "payment_history": list(history),
        }:
            customer = customers.get(user, {})
            body = {
                "currency": CURRENCY,
                "placed_at": PLACED_AT,
                "customer": {"reference": user, **_person(customer)},
                "delivered": status == DELIVERED,
                "lines": _lines(items),
                **_payments(history, customer.get("payment_methods", {})),
            }
            return Row(entry.place, number, body)
    raise Unmapped("It has no order_id, user_id, status, items or payment_history.")


def _person(customer: Mapping[str, Any]) -> dict[str, str]:
    match customer:
        case {"name": {"first_name": str(first), "last_name": str(last)}, "email": str(email)}:
            return {"name": f"{first} {last}", "email": email}
    return {}


def _lines(items: list[object]) -> list[dict[str, object]]:
    """One line for each item and price; the same item listed twice is two units of one line."""
    units: Counter[tuple[str, str]] = Counter()
    descriptions: dict[str, str] = {}
    for item in items:
        match item:
            case {"item_id": str(item_id), "name": str(name), "price": price, **others}:
                quantity = others.get("quantity", 1)
                if type(quantity) is not int:
                    raise Unmapped(f"The quantity of item {item_id} is not a whole number.")
                units[item_id, str(price)] += quantity
                descriptions.setdefault(item_id, _description(name, others.get("options")))
            case _:
                raise Unmapped("An item has no item_id, name or price.")
    line_ids = _numbered(item_id for item_id, _ in units)
    return [
        {
            "id": line_id,
            "sku": item_id,
            "description": descriptions[item_id],
            "quantity": quantity,
            "unit_price": price,
        }
        for line_id, ((item_id, price), quantity) in zip(line_ids, units.items(), strict=True)
    ]


def _description(name: str, options: object) -> str:
    if not isinstance(options, dict) or not options:
        return name
    return f"{name} ({', '.join(f'{option} {value}' for option, value in options.items())})"


def _payments(history: list[object], methods: Mapping[str, Any]) -> dict[str, object]:
    """Payments become tenders; refunds are money that is already gone from theirs."""
    payments: list[tuple[str, str]] = []
    refunds: list[dict[str, str]] = []
    for position, entry in enumerate(history, start=1):
        match entry:
            case {
                "transaction_type": "payment",
                "amount": amount,
                "payment_method_id": str(method),
            }:
                payments.append((method, str(amount)))
            case {"transaction_type": "refund", "amount": amount, "payment_method_id": str(method)}:
                # Its place in the history names it: the data gives refunds no name of their own.
                reference = f"payment-history-{position}"
                refunds.append({"tender": method, "reference": reference, "amount": str(amount)})
            case _:
                raise Unmapped(f"Entry {position} of payment_history is not understood.")
    tender_ids = _numbered(method for method, _ in payments)
    tenders = [
        {"id": tender_id, **_tender(method, methods), "amount": amount}
        for tender_id, (method, amount) in zip(tender_ids, payments, strict=True)
    ]
    return {"tenders": tenders, "past_refunds": refunds}


def _tender(method: str, methods: Mapping[str, Any]) -> dict[str, str]:
    for prefix, (provider, label) in _METHODS.items():
        if method.startswith(prefix):
            card = _card(methods.get(method))
            return {"provider": provider, "payment": method, "label": card or label}
    raise Unmapped(f"{method} is no payment method that we know.")


def _card(method: object) -> str | None:
    match method:
        case {"brand": str(brand), "last_four": str(last_four)}:
            return f"{brand.capitalize()} ending {last_four}"
    return None


def _numbered(names: Iterable[str]) -> list[str]:
    """The same names; a second one that is equal gets -2 behind it, and so on."""
    times: Counter[str] = Counter()
    numbered = []
    for name in names:
        times[name] += 1
        numbered.append(name if times[name] == 1 else f"{name}-{times[name]}")
    return numbered
