"""How much one manager may approve, and from where on it takes two. Pure, minor units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from returns import money

OTHER = "other"


@dataclass(frozen=True)
class Limits:
    """Bounds of one currency in minor units."""

    single_minor: int
    most_minor: int

    def approvals_needed(self, amount_minor: int) -> int:
        """One approval, or two different people's above the single limit."""
        return 1 if amount_minor <= self.single_minor else 2


def limits_of(currency: str, table: Mapping[str, tuple[str, str]]) -> Limits:
    """The limits of a currency from a table of major units, or those of `other` currencies."""
    single, most = table.get(currency) or table[OTHER]
    return Limits(money.parse(single, currency), money.parse(most, currency))
