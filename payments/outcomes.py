"""What an outbound call can end in, and what a counterpart promises. Pure data.

Every adapter turns everything that can happen into one of these; nothing else decides whether a
call may be made again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Purpose(StrEnum):
    """Why we call: to make it happen, or to ask whether it has."""

    SEND = "send"
    ASK = "ask"


@dataclass(frozen=True)
class Capabilities:
    """What a counterpart declares about itself. The core obeys it (see the README, decisions).

    `key_memory_seconds` is how long a repeated key is certainly recognised; None: not at all.
    `lookup_lag_seconds` is how late a look-up may show what has happened.
    `max_under_way_seconds` is the longest a request can travel before it takes effect.
    `by_person` marks payments that a person hands over; no worker ever sends those.
    `repeat_is_harmless`: a repeated send has no effect of its own (drafts, permanent unique keys).
    `two_steps`: what is accepted waits for our own second call (a draft to be posted).
    `refusal_needs_a_person`: a refusal ends nothing; a person mends the cause and asks again.
    """

    key_memory_seconds: int | None
    lookup_lag_seconds: int
    max_under_way_seconds: int = 15 * 60
    may_fail_after_success: bool = False
    final_from_reply: bool = True
    by_person: bool = False
    repeat_is_harmless: bool = False
    two_steps: bool = False
    refusal_needs_a_person: bool = False


@dataclass(frozen=True)
class Settled:
    """It has happened, finally, for this amount (minor units)."""

    reference: str
    amount_minor: int
    currency: str


@dataclass(frozen=True)
class Accepted:
    """The counterpart has it, the end is open."""

    reference: str
    amount_minor: int
    currency: str


@dataclass(frozen=True)
class Refused:
    """The counterpart says no. Whether that is final is for the protocol to judge.

    `alarm` names what a person must hear about once the refusal is final: the no has a cause that
    another try would meet again.
    """

    code: str
    reason: str
    alarm: str = ""


@dataclass(frozen=True)
class Unknown:
    """No answer, or none that can be understood: it may have happened.

    `alarm` names something a person must hear about even if it resolves itself.
    """

    reason: str
    alarm: str = ""


@dataclass(frozen=True)
class Deferred:
    """Certainly not applied, and worth trying again later with the same key.

    `stops_account`: the counterpart refuses us altogether (credentials); stop its queue.
    """

    reason: str
    retry_after_seconds: int | None = None
    stops_account: bool = False


@dataclass(frozen=True)
class Absent:
    """A look-up that saw nothing under our key."""


Outcome = Settled | Accepted | Refused | Unknown | Deferred | Absent
