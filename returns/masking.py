"""Card numbers never reach storage: what looks like one in a text is masked. Pure."""

from __future__ import annotations

import re

# 14 to 19 digits with the first digit of a card network, in groups or not. Shorter numbers are
# article codes; thirteen-digit cards are no longer issued.
_CARD = re.compile(r"(?<!\d)[2-6](?:[ -]?\d){13,18}(?!\d)")


def mask_cards(text: str) -> str:
    """The text with every card number cut down to its last four digits."""
    return _CARD.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match[0])
    return f"[card ending {digits[-4:]}]" if _luhn(digits) else match[0]


def _luhn(digits: str) -> bool:
    """The check digit of ISO/IEC 7812-1."""
    total = 0
    for position, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if position % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
