"""Money as integers of the currency's smallest unit. No float ever enters here.

Exponents follow ISO 4217. Babel's own table follows CLDR, which gives some currencies fewer
digits than their minor unit has (AFN, IQD and others), so it is used for looks only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from babel import Locale
from babel.numbers import NumberFormatError, format_currency, list_currencies, parse_decimal

WITHOUT_DECIMALS = frozenset(
    "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split()
)
# Codes of ISO 4217 that are no money: metals, units of account, tests, none at all.
NOT_MONEY = frozenset("XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX".split())
WITH_THREE_DECIMALS = frozenset("BHD IQD JOD KWD LYD OMR TND".split())

# Fifteen digits before the point fit a signed 64-bit integer with three decimals.
_PLAIN = re.compile(r"(?P<whole>[0-9]{1,15})(?:\.(?P<fraction>[0-9]{1,6}))?")


class NotMoney(ValueError):
    """The text is not an amount of this currency; the message says why."""


def known(currency: str) -> bool:
    """Whether this is a currency code we can account in."""
    return currency in list_currencies() and currency not in NOT_MONEY


def exponent(currency: str) -> int:
    """Digits after the decimal point: 0 for JPY, 3 for KWD, 2 for most."""
    if currency in WITHOUT_DECIMALS:
        return 0
    return 3 if currency in WITH_THREE_DECIMALS else 2


def parse(text: object, currency: str) -> int:
    """Minor units from plain text such as "47.84".

    Digits, at most one point, no sign, no grouping, no exponent. Raises NotMoney for anything
    that is not understood whole, including more decimals than the currency has.
    """
    if not isinstance(text, str):
        raise NotMoney('Give the amount as text, for example "47.84".')
    match = _PLAIN.fullmatch(text)
    if match is None or not text.isascii():
        raise NotMoney('Write the amount with digits and one point, for example "47.84".')
    return _minor(match["whole"], match["fraction"] or "", currency)


def parse_localised(text: str, currency: str, locale: str) -> int:
    """Minor units from what a person typed, read strictly the way their locale writes numbers."""
    try:
        number = parse_decimal(text.strip(), locale=locale, strict=True)
    except NumberFormatError as error:
        raise NotMoney(f"“{text}” is not an amount the way it is written here.") from error
    if not number.is_finite() or number < 0 or "e" in text.lower():
        raise NotMoney(f"“{text}” is not an amount.")
    whole, _, fraction = f"{number:f}".partition(".")
    return _minor(whole, fraction, currency)


def plain(minor: int, currency: str) -> str:
    """The amount in major units for programs: 4784 USD is "47.84", 5800 JPY is "5800"."""
    return f"{major(minor, currency):f}"


def major(minor: int, currency: str) -> Decimal:
    """The amount in major units, exact."""
    return Decimal(minor).scaleb(-exponent(currency))


def shown(minor: int, currency: str, locale: str = "en") -> str:
    """The amount for people: currency code and figure with the currency's own decimals."""
    digits = exponent(currency)
    pattern = "¤¤ #,##0" + ("." + "0" * digits if digits else "")
    return format_currency(
        major(minor, currency),
        currency,
        format=pattern,
        locale=Locale.parse(locale, sep="-"),
        currency_digits=False,
    )


def allocate(total_minor: int, weights: Sequence[int]) -> list[int]:
    """Split a total in proportion to weights so that the parts add up exactly.

    Cumulative half-up rounding: each part is the rounded running total less the one before, so
    no cent is lost or invented and every part is within one unit of its exact share.
    """
    whole = sum(weights)
    if whole <= 0:
        raise ValueError("weights must add up to more than zero")
    parts, weight_so_far, given = [], 0, 0
    for weight in weights:
        weight_so_far += weight
        upto = (2 * total_minor * weight_so_far + whole) // (2 * whole)
        parts.append(upto - given)
        given = upto
    return parts


def _minor(whole: str, fraction: str, currency: str) -> int:
    digits = exponent(currency)
    kept, cut = fraction[:digits], fraction[digits:]
    if cut.strip("0"):
        raise NotMoney(f"{currency} has {digits} decimals; this amount has more.")
    if len(whole) > 15:
        raise NotMoney("This amount is too large.")
    return int(whole + kept.ljust(digits, "0"))
