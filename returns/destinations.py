"""Which tender pays how much of a refund. Pure, minor units."""

from __future__ import annotations

from collections.abc import Sequence

# The provider whose payments no worker sends: a person hands them over.
BY_HAND = "manual"


def first_fit(amount_minor: int, remaining_minor: Sequence[int]) -> list[int]:
    """Each tender's part when they are drawn on in order, none beyond what it has left."""
    parts = []
    for remaining in remaining_minor:
        parts.append(min(amount_minor, remaining))
        amount_minor -= parts[-1]
    return parts
