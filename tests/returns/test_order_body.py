"""The one reading of an order's JSON body: strict, and every complaint at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from returns.errors import Invalid
from returns.order_body import read_order
from returns.order_facts import LineFacts, TenderFacts


def body(**changed: Any) -> dict[str, Any]:
    """A whole body, with some fields changed."""
    return {
        "currency": "USD",
        "placed_at": "2026-03-01T13:30:00+01:00",
        "lines": [{"id": "shirt", "quantity": 2, "unit_price": "10.05", "tax": "1.90"}],
        "shipping": "2",
        "tenders": [{"id": "card", "provider": "stripe", "payment": "pi_1", "amount": "24.00"}],
        **changed,
    }


def complaints(**changed: Any) -> dict[str, Any]:
    with pytest.raises(Invalid) as refusal:
        read_order("A1", body(**changed))
    return refusal.value.fields


def line(**changed: Any) -> list[dict[str, Any]]:
    return [{**body()["lines"][0], **changed}]


def test_amounts_become_minor_units_and_times_utc() -> None:
    facts = read_order("A1", body())
    assert facts.lines == (LineFacts("shirt", "", "", 2, 1005, tax_minor=190),)
    assert facts.tenders == (TenderFacts("card", "stripe", "pi_1", 2400),)
    assert facts.shipping_minor == 200
    assert facts.placed_at == datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert facts.delivered


@pytest.mark.parametrize(
    ("currency", "amount", "minor"), [("JPY", "5800", 5800), ("KWD", "18.600", 18_600)]
)
def test_amounts_have_the_decimals_of_their_currency(
    currency: str, amount: str, minor: int
) -> None:
    facts = read_order("A1", body(currency=currency, lines=line(unit_price=amount, tax="0")))
    assert facts.lines[0].unit_price_minor == minor


@pytest.mark.parametrize("amount", [10, 10.05, True, None, "", "-1", "1e2", "NaN", "1,50", "0.001"])
def test_an_amount_that_is_not_plain_text_is_refused(amount: object) -> None:
    assert set(complaints(lines=line(unit_price=amount))) == {"lines.0.unit_price"}


@pytest.mark.parametrize("quantity", ["2", 2.0, True, None])
def test_a_quantity_is_a_whole_number(quantity: object) -> None:
    assert set(complaints(lines=line(quantity=quantity))) == {"lines.0.quantity"}


@pytest.mark.parametrize("text", ["a\0b", "a\nb", "\ud800", 7, None, "x" * 501])
def test_text_that_cannot_be_stored_and_shown_is_refused(text: object) -> None:
    assert set(complaints(lines=line(description=text))) == {"lines.0.description"}


@pytest.mark.parametrize("moment", ["2026-03-01", "2026-03-01T12:30:00", "0001-01-01T00:00:00Z", 1])
def test_a_time_without_its_offset_is_refused(moment: object) -> None:
    assert set(complaints(placed_at=moment)) == {"placed_at"}


def test_an_unknown_field_is_refused_and_stays_printable() -> None:
    fields = complaints(**{"lines": line(price="1"), "\ud800": 1})
    assert fields == {
        "lines.0.price": "There is no such field.",
        r"'\ud800'": "There is no such field.",
    }


def test_every_complaint_comes_at_once() -> None:
    fields = complaints(placed_at="x", customer=None, lines=[1], tenders={}, delivered=1)
    assert set(fields) == {"placed_at", "customer", "lines.0", "tenders", "delivered"}


@pytest.mark.parametrize("document", [None, [], "x", {}])
def test_what_is_no_order_is_refused(document: object) -> None:
    with pytest.raises(Invalid):
        read_order("A1", document)


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(Invalid) as refusal:
        read_order("A1", {})
    assert refusal.value.fields == dict.fromkeys(
        ("currency", "placed_at", "lines", "tenders"), "This is missing."
    )


def test_amounts_are_not_judged_without_their_currency() -> None:
    lines = [{"id": "shirt", "quantity": 1, "unit_price": "18.6005"}]
    assert set(complaints(currency="XYZ", lines=lines)) == {"currency"}
    assert set(complaints(currency="XYZ", lines=[{"id": "shirt", "quantity": 1}])) == {
        "currency",
        "lines.0.unit_price",
    }


def test_what_is_no_object_is_one_complaint() -> None:
    with pytest.raises(Invalid) as refusal:
        read_order("A1", [])
    assert refusal.value.fields == {"order": "Give a JSON object."}


def test_the_reference_of_a_past_refund_is_read_without_blanks_around_it() -> None:
    refund = {"tender": "card", "amount": "1.00"}
    facts = read_order("A1", body(past_refunds=[{**refund, "reference": " re_1 "}]))
    assert [past.reference for past in facts.past_refunds] == ["re_1"]
    assert set(complaints(past_refunds=[{**refund, "reference": "  "}])) == {
        "past_refunds.0.reference"
    }


def test_a_number_inside_must_be_the_number_outside() -> None:
    assert read_order("A1", body(number="A1")).number == "A1"
    assert set(complaints(number="A2")) == {"number"}
