"""The one reading of an order's JSON body, for the API and for imports. Pure.

Strict: unknown fields, wrong types and text that is not understood whole are refused, each under
the path of its field ("lines.0.unit_price"). Whether the facts add up is for order_facts to say.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from returns import money
from returns.errors import Invalid
from returns.order_facts import LineFacts, OrderFacts, PastRefund, TenderFacts

# Sanity bounds: an order beyond them is a mistake, and every sum stays far inside 64 bits.
MOST_LINES = 2_000
MOST_TENDERS = 100
MOST_PAST_REFUNDS = 1_000
MOST_MINOR = 10**15
YEARS = range(1970, 2200)


def read_order(number: str, body: object) -> OrderFacts:
    """The facts in a decoded JSON body; amounts are text in major units, results minor units.

    A `number` inside the body may only repeat the given one. Raises Invalid with every complaint.
    """
    order = _Fields(body)
    if order.text("number", most=64, default=number) != number:
        order.complain("number", f"This is not the number in the address, “{number}”.")
    currency = order.text("currency", most=3)
    if not money.known(currency):
        order.complain("currency", "Give the ISO 4217 code, for example USD.")
        currency = ""
    customer = order.inner("customer")
    facts = OrderFacts(
        number=number,
        currency=currency,
        placed_at=order.moment("placed_at"),
        lines=tuple(_line(line, currency) for line in order.rows("lines", MOST_LINES)),
        tenders=tuple(_tender(t, currency) for t in order.rows("tenders", MOST_TENDERS)),
        shipping_minor=order.amount("shipping", currency, default="0"),
        discount_minor=order.amount("discount", currency, default="0"),
        customer_reference=customer.text("reference", most=200, default=""),
        customer_name=customer.text("name", most=200, default=""),
        customer_email=customer.text("email", most=254, default=""),
        delivered=order.boolean("delivered", default=True),
        past_refunds=tuple(
            _past_refund(refund, currency)
            for refund in order.rows("past_refunds", MOST_PAST_REFUNDS, required=False)
        ),
    )
    customer.refuse_unread()
    order.refuse_unread()
    if order.complaints:
        raise Invalid(order.complaints)
    return facts


def _line(line: _Fields, currency: str) -> LineFacts:
    facts = LineFacts(
        line_id=line.text("id", most=64),
        sku=line.text("sku", most=100, default=""),
        description=line.text("description", most=500, default=""),
        quantity=line.whole("quantity"),
        unit_price_minor=line.amount("unit_price", currency),
        discount_minor=line.amount("discount", currency, default="0"),
        tax_minor=line.amount("tax", currency, default="0"),
    )
    line.refuse_unread()
    return facts


def _tender(tender: _Fields, currency: str) -> TenderFacts:
    facts = TenderFacts(
        tender_id=tender.text("id", most=64),
        provider=tender.text("provider", most=32),
        payment=tender.text("payment", most=200),
        amount_minor=tender.amount("amount", currency),
        label=tender.text("label", most=200, default=""),
    )
    tender.refuse_unread()
    return facts


def _past_refund(refund: _Fields, currency: str) -> PastRefund:
    facts = PastRefund(
        tender_id=refund.text("tender", most=64),
        # Trimmed, so that the same refund told with other blanks is still the same.
        reference=refund.text("reference", most=200, trim=True),
        amount_minor=refund.amount("amount", currency),
    )
    refund.refuse_unread()
    return facts


class _Fields:
    """The fields of one JSON object, read one by one; what is wrong is collected, not raised.

    After a complaint a harmless value stands in, so that one answer names everything at once.
    """

    def __init__(
        self, document: object, path: str = "", complaints: dict[str, Any] | None = None
    ) -> None:
        self.complaints = {} if complaints is None else complaints
        self._path = path
        self._read: set[str] = set()
        self._values: Mapping[str, object] = {}
        self._is_object = isinstance(document, dict)
        if isinstance(document, dict):
            self._values = document
        else:
            self.complaints[path or "order"] = "Give a JSON object."

    def complain(self, name: str, sentence: str) -> None:
        """Note what is wrong with a field; the first complaint about it stands."""
        if self._is_object:
            self.complaints.setdefault(self._path_of(name), sentence)

    def text(self, name: str, *, most: int, default: str | None = None, trim: bool = False) -> str:
        """Text of at most `most` characters; without a default it must be there and not empty."""
        value = self._value(name, default)
        if not isinstance(value, str):
            self._complain_type(name, value, "text")
            return ""
        value = value.strip() if trim else value
        if not value and default is None:
            self.complain(name, "This must not be empty.")
        elif len(value) > most:
            self.complain(name, f"At most {most} characters.")
        elif any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
            self.complain(name, "Control characters are not accepted.")
        return value

    def amount(self, name: str, currency: str, *, default: str | None = None) -> int:
        """Minor units from text in major units; without a currency it only has to be there."""
        value = self._value(name, default)
        if value is None:
            self._complain_type(name, value, "text")
            return 0
        if not currency:
            return 0
        try:
            minor = money.parse(value, currency)
        except money.NotMoney as error:
            self.complain(name, str(error))
            return 0
        if minor > MOST_MINOR:
            self.complain(name, "This amount is too large.")
        return minor

    def whole(self, name: str) -> int:
        """A whole number; true and 1.0 are none."""
        value = self._value(name, None)
        if type(value) is not int:
            self._complain_type(name, value, "a whole number")
            return 1
        return value

    def boolean(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            self._complain_type(name, value, "true or false")
            return default
        return value

    def moment(self, name: str) -> datetime:
        """An ISO 8601 time with its offset, in UTC."""
        value = self._value(name, None)
        epoch = datetime.fromtimestamp(0, UTC)
        if not isinstance(value, str):
            self._complain_type(name, value, "text")
            return epoch
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = epoch.replace(tzinfo=None)
        if moment.tzinfo is None or moment.year not in YEARS:
            self.complain(name, "Give ISO 8601 with an offset, such as 2026-03-01T12:30:00Z.")
            return epoch
        return moment.astimezone(UTC)

    def inner(self, name: str) -> _Fields:
        """An object inside this one; absent is empty."""
        return _Fields(self._value(name, {}), self._path_of(name), self.complaints)

    def rows(self, name: str, most: int, *, required: bool = True) -> Iterator[_Fields]:
        """The objects of a list."""
        value = self._value(name, None if required else [])
        if not isinstance(value, list):
            self._complain_type(name, value, "a list")
        elif len(value) > most:
            self.complain(name, f"At most {most} entries.")
        else:
            for place, row in enumerate(value):
                yield _Fields(row, f"{self._path_of(name)}.{place}", self.complaints)

    def refuse_unread(self) -> None:
        """Complain about every field that nobody has asked for."""
        for name in self._values.keys() - self._read:
            # What cannot be printed cannot be written into an answer either.
            self.complain(name if name.isprintable() else ascii(name), "There is no such field.")

    def _value(self, name: str, default: object) -> object:
        self._read.add(name)
        return self._values.get(name, default)

    def _complain_type(self, name: str, value: object, wanted: str) -> None:
        missing = value is None and name not in self._values
        self.complain(name, "This is missing." if missing else f"This must be {wanted}.")

    def _path_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name
