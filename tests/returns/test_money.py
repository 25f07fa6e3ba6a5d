"""Money is whole numbers of the currency's smallest unit, both ways and in every currency."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from returns.money import (
    WITH_THREE_DECIMALS,
    WITHOUT_DECIMALS,
    NotMoney,
    allocate,
    exponent,
    known,
    parse,
    parse_localised,
    plain,
    shown,
)

CURRENCIES = st.sampled_from(["USD", "EUR", *sorted(WITHOUT_DECIMALS | WITH_THREE_DECIMALS)])


@pytest.mark.parametrize(
    ("currency", "text", "minor", "seen"),
    [
        ("JPY", "5800", 5_800, "JPY 5,800"),
        ("JPY", "9899", 9_899, "JPY 9,899"),
        ("KWD", "18.600", 18_600, "KWD 18.600"),
        ("KWD", "92.000", 92_000, "KWD 92.000"),
        ("USD", "47.84", 4_784, "USD 47.84"),
        ("EUR", "1355.90", 135_590, "EUR 1,355.90"),
    ],
)
def test_every_currency_has_its_own_decimals(
    currency: str, text: str, minor: int, seen: str
) -> None:
    assert parse(text, currency) == minor
    assert plain(minor, currency) == text
    assert shown(minor, currency).replace("\xa0", " ") == seen


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [("10", "USD", 1_000), ("10.5", "USD", 1_050), ("10.500", "USD", 1_050), ("0010", "JPY", 10)],
)
def test_fewer_decimals_and_trailing_zeros_are_understood(
    text: str, currency: str, minor: int
) -> None:
    assert parse(text, currency) == minor


@pytest.mark.parametrize(
    ("text", "currency"), [("10.5", "JPY"), ("0.001", "USD"), ("18.6005", "KWD")]
)
def test_more_decimals_than_the_currency_has_are_refused_and_not_rounded(
    text: str, currency: str
) -> None:
    with pytest.raises(NotMoney, match=currency):
        parse(text, currency)


@pytest.mark.parametrize(
    "text",
    [
        *("-10", "+10", "", " ", " 10", "10 ", "1e2", "NaN", "Infinity", "0x10", "1_000"),
        *("1,000", "10,00", "1'000", ".5", "5.", "1.2.3", "٣", "$10", "1" * 16, "1.0000000"),
        *(None, 10, 10.5, True, ["10"]),
    ],
)
def test_what_is_not_understood_whole_is_refused(text: object) -> None:
    with pytest.raises(NotMoney):
        parse(text, "USD")


@pytest.mark.parametrize(
    ("text", "locale", "minor"),
    [
        ("6,95", "de", 695),
        ("8,5", "nl", 850),
        ("2.614,50", "de", 261_450),
        ("2.614", "de", 261_400),
        ("2,614.50", "en", 261_450),
    ],
)
def test_a_typed_amount_is_read_the_way_it_is_written_there(
    text: str, locale: str, minor: int
) -> None:
    assert parse_localised(text, "EUR", locale) == minor


@pytest.mark.parametrize(
    ("text", "locale"),
    [
        *(("2,614.50", "de"), ("2.614,50", "en"), ("-5", "de"), ("1e3", "en"), ("", "en")),
        *(("26.14", "de"), ("NaN", "en"), ("Infinity", "en"), ("6,955", "de")),
    ],
)
def test_a_typed_amount_of_another_locale_is_refused(text: str, locale: str) -> None:
    with pytest.raises(NotMoney):
        parse_localised(text, "EUR", locale)


def test_currencies_that_cldr_shows_without_decimals_keep_those_of_iso() -> None:
    assert (exponent("IQD"), exponent("AFN"), exponent("HUF")) == (3, 2, 2)
    assert (known("KWD"), known("kwd"), known("XYZ")) == (True, False, False)


@pytest.mark.parametrize("code", ["XXX", "XTS", "XAU", "XAG", "XPT", "XDR", "XBA", "XSU"])
def test_codes_that_are_no_money_are_not_known(code: str) -> None:
    assert not known(code)


@given(minor=st.integers(min_value=0, max_value=10**14), currency=CURRENCIES)
def test_what_is_written_is_read_back(minor: int, currency: str) -> None:
    assert parse(plain(minor, currency), currency) == minor


@pytest.mark.parametrize(
    ("total", "parts"), [(10_000, [3_333, 3_334, 3_333]), (1_000, [333, 334, 333])]
)
def test_a_third_each_of_kwd_10_and_jpy_1000(total: int, parts: list[int]) -> None:
    assert allocate(total, [1, 1, 1]) == parts


@given(
    total=st.integers(min_value=0, max_value=10**12),
    weights=st.lists(st.integers(min_value=0, max_value=10**9), min_size=1).filter(any),
)
def test_parts_add_up_and_none_is_a_unit_away_from_its_share(
    total: int, weights: list[int]
) -> None:
    parts = allocate(total, weights)
    whole = sum(weights)
    assert sum(parts) == total
    assert all(
        abs(part * whole - total * weight) <= whole
        for part, weight in zip(parts, weights, strict=True)
    )
    assert min(parts) >= 0


def test_nothing_can_be_split_by_weights_of_nothing() -> None:
    with pytest.raises(ValueError, match="more than zero"):
        allocate(100, [0, 0])
