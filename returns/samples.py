"""Sample orders of an invented shop, the same ones every time. Pure.

Every choice is drawn from a digest of the order number, so an order never depends on its
neighbours, on a clock or on the Python that runs: loading the samples again finds nothing changed.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from returns.order_facts import LineFacts, OrderFacts, PastRefund, TenderFacts

COUNT = 72
_SEED = "refund desk samples 1"
_FIRST_NUMBER = 10_001
_FIRST_SALE = datetime(2026, 9, 14, 9, 5, tzinfo=UTC)
_BETWEEN_SALES = timedelta(hours=25, minutes=17)

T = TypeVar("T")


@dataclass(frozen=True)
class _Market:
    """How the shop sells in one currency; its prices come from those in euro cents."""

    currency: str
    # Minor units for a euro, and what prices are rounded down to.
    rate: int
    step: int
    tax_permille: int
    shipping_minor: int

    def price_minor(self, cents: int) -> int:
        """What costs so many euro cents at home."""
        return self.rounded(cents * self.rate // 100)

    def share_minor(self, amount_minor: int, percent: int) -> int:
        """So many per cent of an amount."""
        return self.rounded(amount_minor * percent // 100)

    def rounded(self, amount_minor: int) -> int:
        """Down to the prices people are used to."""
        return amount_minor // self.step * self.step


# Paid whole by card: whoever tries the desk first sees a refund go all the way by itself.
_FIRST_TRIED = ("S10001", "S10002", "S10003")

_EURO = _Market("EUR", 100, 5, 190, 595)
_DOLLAR = _Market("USD", 110, 1, 82, 799)
_POUND = _Market("GBP", 85, 5, 200, 495)
_YEN = _Market("JPY", 165, 10, 100, 880)
_DINAR = _Market("KWD", 335, 5, 0, 2250)
_MARKETS = (
    *(_EURO, _DOLLAR, _EURO, _YEN, _EURO, _DINAR),
    *(_DOLLAR, _EURO, _POUND, _YEN, _DOLLAR, _DINAR),
)

# (SKU, name, euro cents). None of them exists.
_PRODUCTS = (
    ("4012345000019", "Fjordlamp desk lamp, brass", 6490),
    ("4012345000026", "Alder chopping board, large", 3450),
    ("4012345000033", "Moorland wool blanket, grey", 8900),
    ("4012345000040", "Tidewater rain jacket, M", 12900),
    ("4012345000057", "Tidewater rain jacket, L", 12900),
    ("4012345000064", "Pebble wireless speaker", 4995),
    ("4012345000071", "Harbour linen shirt, white", 5400),
    ("4012345000088", "Harbour linen shirt, blue", 5400),
    ("4012345000095", "Copperline kettle 1.7 l", 7250),
    ("4012345000101", "Orchard apple peeler", 1890),
    ("4012345000118", "Nightjar headphones", 15990),
    ("4012345000125", "Larch folding chair", 3900),
    ("4012345000132", "Saltmarsh trail shoes, 42", 11900),
    ("4012345000149", "Saltmarsh trail shoes, 43", 11900),
    ("4012345000156", "Inkwell fountain pen", 2690),
    ("4012345000163", "Inkwell ink, 50 ml", 795),
    ("4012345000170", "Thistle plant pot, set of 3", 2340),
    ("4012345000187", "Ember camping stove", 5990),
    ("4012345000194", "Skylark kite", 2999),
    ("4012345000200", "Drumlin e-bike, 54 cm", 289000),
)
_FIRST_NAMES = (
    *("Amélie", "Jonas", "Nadia", "Tomás", "Ingrid", "Kofi", "Mei", "Elif", "Hugo", "Saoirse"),
    *("Farid", "Yuki", "Zoë", "Bram", "Leila", "Piotr"),
)
_LAST_NAMES = (
    *("Thornbury", "Okonjo", "Lindqvist", "Marchetti", "Haddad", "Vanderlee", "Kowalczyk"),
    *("Tanabe", "Brightwater", "Ferreira", "Al-Sabti", "Nørgaard", "Castellan"),
)
_CARDS = (
    *("Visa ending 4242", "Mastercard ending 5454", "Visa ending 1881", "Amex ending 0005"),
    *("Mastercard ending 3222", "Visa ending 5556"),
)


class _Draw:
    """Choices that depend on the order and the question alone."""

    def __init__(self, number: str) -> None:
        self.number = number

    def of(self, choices: Sequence[T], *question: str) -> T:
        """One of the choices."""
        text = "/".join((_SEED, self.number, *question))
        return choices[int.from_bytes(hashlib.sha256(text.encode()).digest()) % len(choices)]


def sample_orders() -> list[OrderFacts]:
    """All of them, oldest first."""
    return [_order(index) for index in range(COUNT)]


def _order(index: int) -> OrderFacts:
    draw = _Draw(f"S{_FIRST_NUMBER + index}")
    market = _MARKETS[index % len(_MARKETS)]
    lines = tuple(_line(draw, market, *product) for product in _products(draw))
    goods_minor = sum(line.total_minor for line in lines)
    discount_minor = market.share_minor(goods_minor, draw.of((0, 0, 0, 5, 10), "voucher"))
    shipping_minor = draw.of((0, market.shipping_minor), "shipping")
    tenders = _tenders(draw, market, goods_minor - discount_minor + shipping_minor)
    name = f"{draw.of(_FIRST_NAMES, 'first name')} {draw.of(_LAST_NAMES, 'last name')}"
    return OrderFacts(
        number=draw.number,
        currency=market.currency,
        placed_at=_FIRST_SALE + index * _BETWEEN_SALES,
        lines=lines,
        tenders=tenders,
        shipping_minor=shipping_minor,
        discount_minor=discount_minor,
        customer_reference=f"C-{_FIRST_NUMBER + index}",
        customer_name=name,
        customer_email=_email(name),
        delivered=draw.of((True,) * 9 + (False,), "delivered"),
        past_refunds=_past_refunds(draw, market, tenders),
    )


def _products(draw: _Draw) -> list[tuple[str, str, int]]:
    first = _PRODUCTS.index(draw.of(_PRODUCTS, "first product"))
    count = draw.of((1, 1, 2, 2, 3, 4), "lines")
    # A stride that shares no divisor with their number meets none of them twice.
    return [_PRODUCTS[(first + 7 * step) % len(_PRODUCTS)] for step in range(count)]


def _line(draw: _Draw, market: _Market, sku: str, name: str, cents: int) -> LineFacts:
    quantity = draw.of((1, 1, 1, 2, 3), "quantity", sku)
    price_minor = market.price_minor(cents)
    full_minor = quantity * price_minor
    discount_minor = market.share_minor(full_minor, draw.of((0, 0, 0, 10, 15), "sale", sku))
    return LineFacts(
        line_id=sku,
        sku=sku,
        description=name,
        quantity=quantity,
        unit_price_minor=price_minor,
        discount_minor=discount_minor,
        tax_minor=((full_minor - discount_minor) * market.tax_permille + 500) // 1000,
    )


def _tenders(draw: _Draw, market: _Market, total_minor: int) -> tuple[TenderFacts, ...]:
    """A card or cash for all of it, or for what a gift card has left open."""
    if draw.number in _FIRST_TRIED:
        return (_card(draw, total_minor, "whole-"),)
    rest = draw.of((_card, _card, _card, _cash), "tender")
    gift_minor = market.share_minor(total_minor, draw.of((0, 0, 0, 20, 45), "gift card"))
    if not gift_minor:
        return (rest(draw, total_minor),)
    gift = TenderFacts("gift-card", "manual", f"gift-{draw.number}", gift_minor, "Gift card")
    return gift, rest(draw, total_minor - gift_minor)


def _card(draw: _Draw, amount_minor: int, kind: str = "") -> TenderFacts:
    """`kind` sets the payment apart from one of another amount that a provider may know already."""
    payment, label = f"pi_sample_{kind}{draw.number}", draw.of(_CARDS, "card")
    return TenderFacts("card", "stripe", payment, amount_minor, label)


def _cash(draw: _Draw, amount_minor: int) -> TenderFacts:
    return TenderFacts("cash", "manual", f"till-{draw.number}", amount_minor, "Cash")


def _past_refunds(
    draw: _Draw, market: _Market, tenders: tuple[TenderFacts, ...]
) -> tuple[PastRefund, ...]:
    """Given back at the till before; a card's past would have to be in the provider's books too."""
    tender = tenders[0]
    amount_minor = market.share_minor(tender.amount_minor, draw.of((0, 0, 0, 40), "past refund"))
    if tender.provider != "manual" or not amount_minor:
        return ()
    return (PastRefund(tender.tender_id, f"till-receipt-{draw.number}", amount_minor),)


def _email(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.replace("ø", "o")).encode("ascii", "ignore").decode()
    return f"{plain.lower().replace(' ', '.')}@example.com"
