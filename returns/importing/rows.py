"""What every format makes of a file: rows that are ready to be confirmed as orders."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One order: its number, and its facts as the API's order body has them."""

    place: str
    number: str
    body: object
