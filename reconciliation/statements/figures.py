"""Amounts as a file writes them. What is not understood whole is refused, never partly read."""

from __future__ import annotations

import re
from functools import cache

from reconciliation.statements.formats import Format, TwoColumns
from returns import money
from returns.money import NotMoney


def signed_minor(texts: list[str], currency: str, written: Format) -> int:
    """What left us, in minor units; negative for what came back. Raises NotMoney."""
    if isinstance(written.amount, TwoColumns):
        out, came = (_minor(text, currency, written) if text else 0 for text in texts)
        if min(out, came) < 0 or (out and came):
            raise NotMoney("Exactly one of the two amounts must be given, without a sign.")
        return out - came
    minor = _minor(texts[0], currency, written)
    return -minor if written.amount.out_is_negative else minor


def _minor(text: str, currency: str, written: Format) -> int:
    match = _pattern(written.decimal_mark, written.grouping).fullmatch(text)
    if match is None:
        raise NotMoney(f"“{text}” is not an amount as this source writes it.")
    whole = match["whole"].replace(written.grouping, "") if written.grouping else match["whole"]
    fraction = match["fraction"]
    minor = money.parse(f"{whole}.{fraction}" if fraction else whole, currency)
    return -minor if match["sign"] == "-" else minor


@cache
def _pattern(decimal_mark: str, grouping: str) -> re.Pattern[str]:
    """Groups of three where groups are declared, and nothing but digits elsewhere."""
    plain = "[0-9]{1,15}"
    grouped = rf"[0-9]{{1,3}}(?:{re.escape(grouping)}[0-9]{{3}})+|" if grouping else ""
    fraction = rf"(?:{re.escape(decimal_mark)}(?P<fraction>[0-9]{{1,6}}))?"
    return re.compile(rf"(?P<sign>[+-]?)(?P<whole>{grouped}{plain}){fraction}")
