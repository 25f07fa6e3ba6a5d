"""What a scanned or typed text means: the first of several readings that finds something."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from returns.models import Order, RefundOperation
from returns.ordering import clean_number
from returns.states import OPEN

# Scanners can announce the kind of barcode in front of it: an AIM identifier such as "]C1".
_SCANNER_PREFIX = re.compile(r"^\][A-Za-z][0-9A-Za-z]")
_REFERENCE = re.compile(r"R-?([0-9]{1,18})", re.IGNORECASE)
# Keys 1 to 9 choose from the list; whoever has more hits needs a better question.
MOST_HITS = 9
# Shorter pieces of a name find half the customers.
SHORTEST_NAME = 3


@dataclass(frozen=True)
class Hit:
    """Something the text may mean: its name, what it is, and where it opens."""

    name: str
    description: str
    url: str


@dataclass(frozen=True)
class Scanned:
    """A text without what scanners and copying put around it: with blanks, and without any."""

    words: str
    code: str


def clean(text: str) -> Scanned:
    """Strip control and format characters and scanner prefixes; make every dash a plain one."""
    kept = "".join(_plain(character) for character in text[:300])
    words = _SCANNER_PREFIX.sub("", " ".join(kept.split())).strip()
    return Scanned(words, "".join(words.split()))


def resolve(text: str) -> list[Hit]:
    """Everything the text can mean, by the first reading that finds anything; at most MOST_HITS."""
    scanned = clean(text)
    if not scanned.code:
        return []
    for reading in _READINGS:
        hits = list(reading(scanned))
        if hits:
            return hits
    return []


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Pd" or character == "\N{MINUS SIGN}":
        return "-"
    if category == "Cc":
        # Tabs and line ends stand between words; other control characters between letters.
        return " " if character.isspace() else ""
    return "" if category in ("Cf", "Cs", "Cn") else character


def _by_reference(scanned: Scanned) -> Iterable[Hit]:
    match = _REFERENCE.fullmatch(scanned.code)
    return _returns(RefundOperation.objects.filter(pk=int(match[1]))) if match else []


def _by_order_number(scanned: Scanned) -> Iterable[Hit]:
    return _orders(Order.objects.filter(number__iexact=clean_number(scanned.code)))


def _by_provider_id(scanned: Scanned) -> Iterable[Hit]:
    """Providers tell payments apart by letter case, so here it counts."""
    refunds = RefundOperation.objects.filter(payments__provider_refund=scanned.code)
    return [
        *_orders(Order.objects.filter(tenders__payment=scanned.code)),
        *_returns(refunds),
    ][:MOST_HITS]


def _by_goods_in_open_return(scanned: Scanned) -> Iterable[Hit]:
    holding = RefundOperation.objects.filter(
        state__in=sorted(OPEN), claims__live=True, claims__line__sku__iexact=scanned.code
    )
    return _returns(holding)


def _by_customer(scanned: Scanned) -> Iterable[Hit]:
    if "@" in scanned.code:
        return _orders(Order.objects.filter(customer_email__iexact=scanned.code))
    if len(scanned.code) < SHORTEST_NAME:
        return []
    return _orders(Order.objects.filter(customer_name__icontains=scanned.words))


_READINGS: tuple[Callable[[Scanned], Iterable[Hit]], ...] = (
    _by_reference,
    _by_order_number,
    _by_provider_id,
    _by_goods_in_open_return,
    _by_customer,
)


def _orders(orders: QuerySet[Order]) -> list[Hit]:
    newest = orders.distinct().order_by("-placed_at", "-pk")[:MOST_HITS]
    return [
        Hit(
            _("Order %(number)s") % {"number": order.number},
            " · ".join(filter(None, [order.customer_name, f"{order.placed_at:%Y-%m-%d}"])),
            reverse("order", args=[order.number]),
        )
        for order in newest
    ]


def _returns(operations: QuerySet[RefundOperation]) -> list[Hit]:
    oldest = operations.select_related("order").distinct().order_by("pk")[:MOST_HITS]
    return [
        Hit(
            operation.reference,
            f"{_('Order %(number)s') % {'number': operation.order.number}} · "
            f"{operation.get_state_display()}",
            reverse("return", args=[operation.reference]),
        )
        for operation in oldest
    ]
