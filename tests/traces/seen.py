"""What can be seen of a row from outside, in the same words for the product's and the model's."""

from __future__ import annotations

from typing import NamedTuple

from payments.outcomes import Capabilities
from payments.protocol import (
    DEATHS_BEFORE_PARKING,
    Facts,
    Timing,
    _absent_after_last_send,
    _may_send,
    is_quiet,
)


class Seen(NamedTuple):
    """A row at one moment. Times show only as the answers to the protocol's own questions."""

    state: str
    lease: str  # none | held | ended
    window: str  # never begun | open | closed: whether the key is sure to be remembered
    absent: str  # what the last look-up that saw nothing is worth
    in_doubt: bool
    refused_in_doubt: bool
    was_sent: bool
    has_look: bool
    has_word: bool
    deaths: int


def seen(facts: Facts, capabilities: Capabilities, timing: Timing, *, has_word: bool) -> Seen:
    """What a row shows; `has_word`: a person is told why it was set aside."""
    return Seen(
        state=str(facts.state),
        lease=_lease(facts),
        window=_window(facts, timing),
        absent=_absent(facts, capabilities),
        in_doubt=facts.in_doubt,
        refused_in_doubt=facts.refused_in_doubt,
        was_sent=facts.last_sent_at is not None,
        has_look=facts.next_look_at is not None,
        has_word=has_word,
        # The model counts no further than this: the next one sets the row aside.
        deaths=min(facts.deaths, DEATHS_BEFORE_PARKING - 1),
    )


def _lease(facts: Facts) -> str:
    if facts.lease_until is None:
        return "none"
    return "held" if facts.lease_until > facts.now else "ended"


def _window(facts: Facts, timing: Timing) -> str:
    if facts.safe_retry_until is None:
        return "never begun"
    return "open" if _may_send(facts, timing) else "closed"


def _absent(facts: Facts, capabilities: Capabilities) -> str:
    if facts.absent_at is None:
        return "never"
    if is_quiet(facts, facts.absent_at, capabilities):
        return "when all was quiet"
    if _absent_after_last_send(facts, capabilities):
        return "after the last send"
    return "too early"
