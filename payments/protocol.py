"""The outbound protocol as two pure functions: what to do next, and what an answer means.

`decide` looks at a row before a call, `judge` at the outcome after it. Both see only facts, so
they can be searched exhaustively. The rules they keep:

- unknown is not failed: ask before sending again, always with the same key;
- a re-send needs a look-up that saw nothing, started later than the last send plus the look-up
  lag, and must end while the key is certainly still remembered;
- a counterpart that knows no keys gets a re-send only after a look-up made when nothing can be
  under way;
- a refusal is final only when no earlier attempt is in doubt, or when such a quiet look-up agrees.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from payments.outcomes import (
    Absent,
    Accepted,
    Capabilities,
    Deferred,
    Outcome,
    Purpose,
    Refused,
    Settled,
    Unknown,
)
from returns.states import TaskState

# Rows that no look can move. What has succeeded may be looked at once more, when somebody asks.
_CLOSED = frozenset({TaskState.DECLINED, TaskState.RETURNED, TaskState.STUCK})

# A task that has killed its worker this often is set aside, so that the queue keeps moving.
DEATHS_BEFORE_PARKING = 3
# Look-ups start quickly, since most doubts clear in seconds, and settle at a quarter of an hour.
FIRST_LOOK_SECONDS = 2
LONGEST_LOOK_SECONDS = 15 * 60
# A payment the provider holds takes hours or days; asking more often than hourly helps nobody.
LONGEST_ACCEPTED_LOOK_SECONDS = 60 * 60
# Without advice from the provider, how long a deferred call rests.
DEFERRED_SECONDS = 5


class Step(StrEnum):
    """What a worker may do with a row now."""

    SEND = "send"
    ASK = "ask"
    PARK = "park"
    WAIT = "wait"


class Verdict(StrEnum):
    """What an outcome makes of a row; the names of the edges it moves along."""

    SUCCEED = "succeed"
    ACCEPT = "accept"
    DECLINE = "decline"
    DOUBT = "doubt"
    DEFER = "defer"
    PARK = "park"
    GIVE_BACK = "give_back"
    STAY = "stay"


@dataclass(frozen=True)
class Timing:
    """How long one call may last (seconds): `lease` covers waiting, `call` and `margin`."""

    lease_seconds: int
    call_seconds: int
    margin_seconds: int


@dataclass(frozen=True)
class Facts:
    """What the protocol knows about a row, on the database's clock."""

    now: datetime
    state: str
    lease_until: datetime | None
    next_look_at: datetime | None
    last_sent_at: datetime | None
    last_send_ends_at: datetime | None
    safe_retry_until: datetime | None
    absent_at: datetime | None
    in_doubt: bool
    refused_in_doubt: bool
    deaths: int
    quiet_looks: int
    amount_minor: int
    currency: str


@dataclass(frozen=True)
class Decision:
    """The next step, and the word for a person where one is needed."""

    step: Step
    attention: str = ""


def decide(facts: Facts, capabilities: Capabilities, timing: Timing) -> Decision:
    """What to do with a row now; WAIT when nothing is due or somebody holds it."""
    if facts.state in _CLOSED or capabilities.by_person:
        return Decision(Step.WAIT)
    if facts.lease_until is not None and facts.lease_until > facts.now:
        return Decision(Step.WAIT)
    never_sent = facts.state == TaskState.PENDING and facts.last_sent_at is None
    if facts.lease_until is None and not never_sent and _not_due(facts):
        return Decision(Step.WAIT)
    if facts.state == TaskState.SUCCEEDED:
        return Decision(Step.ASK)
    if facts.lease_until is not None and facts.deaths + 1 >= DEATHS_BEFORE_PARKING:
        return Decision(Step.PARK, "kills_its_worker")
    if facts.state == TaskState.PENDING:
        return Decision(Step.SEND) if _may_send(facts, timing) else _window_closed()
    if facts.state == TaskState.UNKNOWN and facts.lease_until is None:
        return _from_unknown(facts, capabilities, timing)
    return Decision(Step.ASK)


def _not_due(facts: Facts) -> bool:
    return facts.next_look_at is None or facts.next_look_at > facts.now


def _from_unknown(facts: Facts, capabilities: Capabilities, timing: Timing) -> Decision:
    if facts.refused_in_doubt or not _absent_after_last_send(facts, capabilities):
        return Decision(Step.ASK)
    if not (_repeat_is_recognised(capabilities) or is_quiet(facts, facts.absent_at, capabilities)):
        return Decision(Step.ASK)
    if not _may_send(facts, timing):
        return _window_closed()
    return Decision(Step.SEND)


def _window_closed() -> Decision:
    return Decision(Step.PARK, "window_closed")


def _may_send(facts: Facts, timing: Timing) -> bool:
    """The whole lease must end while the counterpart certainly remembers the key."""
    ends_at = facts.now + timedelta(seconds=timing.lease_seconds + timing.margin_seconds)
    return facts.safe_retry_until is None or ends_at <= facts.safe_retry_until


def _repeat_is_recognised(capabilities: Capabilities) -> bool:
    return capabilities.key_memory_seconds is not None or capabilities.repeat_is_harmless


def _absent_after_last_send(facts: Facts, capabilities: Capabilities) -> bool:
    if facts.absent_at is None or facts.last_sent_at is None:
        return False
    return facts.absent_at > facts.last_sent_at + timedelta(seconds=capabilities.lookup_lag_seconds)


def is_quiet(facts: Facts, asked_at: datetime | None, capabilities: Capabilities) -> bool:
    """Whether at `asked_at` no request of this row could still be on its way."""
    if asked_at is None:
        return False
    if facts.last_send_ends_at is None:
        return True
    under_way = capabilities.max_under_way_seconds + capabilities.lookup_lag_seconds
    return asked_at > facts.last_send_ends_at + timedelta(seconds=under_way)


@dataclass(frozen=True)
class Judgement:
    """What an outcome means: the verdict, what is in doubt from now on, when to look again."""

    verdict: Verdict
    look_after_seconds: float | None = None
    in_doubt: bool = False
    refused_in_doubt: bool = False
    absent: bool = False
    attention: str = ""


def judge(
    facts: Facts,
    purpose: Purpose,
    asked_at: datetime,
    outcome: Outcome,
    capabilities: Capabilities,
) -> Judgement:
    """What the outcome of a call started at `asked_at` means for a row."""
    if facts.state == TaskState.SUCCEEDED:
        return _verified(facts, outcome)
    match outcome:
        case Settled() | Accepted():
            return _found(facts, outcome, capabilities)
        case Refused():
            return _refused(facts, purpose, asked_at, outcome, capabilities)
        case Deferred():
            return _deferred(facts, purpose, outcome)
        case Absent():
            return _absent(facts, asked_at, capabilities)
        case Unknown():
            return _unknown(facts, purpose, outcome)


def _verified(facts: Facts, outcome: Outcome) -> Judgement:
    """What a look at a payment that had succeeded means: only a clear no takes it back."""
    match outcome:
        case Settled():
            told = (outcome.amount_minor, outcome.currency.upper())
            word = "" if told == (facts.amount_minor, facts.currency) else "amount_differs"
            return Judgement(Verdict.STAY, in_doubt=facts.in_doubt, attention=word)
        case Refused():
            return Judgement(Verdict.GIVE_BACK, in_doubt=facts.in_doubt)
        case Absent():
            word = "vanished_at_the_provider"
            return Judgement(Verdict.STAY, in_doubt=facts.in_doubt, attention=word)
        case _:
            return _look_later(facts, Verdict.STAY)


def _found(facts: Facts, outcome: Settled | Accepted, capabilities: Capabilities) -> Judgement:
    if outcome.currency.upper() != facts.currency:
        return Judgement(Verdict.PARK, attention="currency_differs", in_doubt=True)
    if outcome.amount_minor != facts.amount_minor:
        return Judgement(Verdict.PARK, attention="amount_differs", in_doubt=True)
    if isinstance(outcome, Settled):
        return Judgement(Verdict.SUCCEED, in_doubt=facts.in_doubt)
    verdict = Verdict.STAY if facts.state == TaskState.ACCEPTED else Verdict.ACCEPT
    if capabilities.two_steps and verdict is Verdict.ACCEPT:
        return Judgement(verdict, look_after_seconds=0, in_doubt=facts.in_doubt)
    return _look_later(facts, verdict, longest=LONGEST_ACCEPTED_LOOK_SECONDS)


def _refused(
    facts: Facts,
    purpose: Purpose,
    asked_at: datetime,
    outcome: Refused,
    capabilities: Capabilities,
) -> Judgement:
    if purpose is Purpose.SEND:
        final = not facts.in_doubt
    else:
        final = _repeat_is_recognised(capabilities) or is_quiet(facts, asked_at, capabilities)
    if final:
        return _final_refusal(facts, capabilities, alarm=outcome.alarm)
    return _look_later(facts, _doubt_or_stay(facts), refused_in_doubt=True)


def _final_refusal(
    facts: Facts, capabilities: Capabilities, *, absent: bool = False, alarm: str = ""
) -> Judgement:
    """It certainly did not happen: declined, or for a person where a refusal ends nothing."""
    if capabilities.refusal_needs_a_person:
        return Judgement(Verdict.PARK, in_doubt=facts.in_doubt, absent=absent, attention="refused")
    return Judgement(Verdict.DECLINE, in_doubt=facts.in_doubt, absent=absent, attention=alarm)


def _deferred(facts: Facts, purpose: Purpose, outcome: Deferred) -> Judgement:
    attention = "account_refused" if outcome.stops_account else ""
    seconds = outcome.retry_after_seconds or DEFERRED_SECONDS
    if purpose is Purpose.ASK:
        verdict = Verdict.STAY
    else:
        verdict = Verdict.DOUBT if facts.in_doubt else Verdict.DEFER
    return Judgement(
        verdict,
        look_after_seconds=seconds,
        in_doubt=facts.in_doubt,
        refused_in_doubt=facts.refused_in_doubt,
        attention=attention,
    )


def _absent(facts: Facts, asked_at: datetime, capabilities: Capabilities) -> Judgement:
    if facts.state == TaskState.ACCEPTED and capabilities.two_steps:
        return Judgement(Verdict.DOUBT, look_after_seconds=0, in_doubt=True, absent=True)
    if facts.state == TaskState.ACCEPTED:
        return _look_later(facts, Verdict.STAY, attention="vanished_at_the_provider")
    quiet = is_quiet(facts, asked_at, capabilities)
    if facts.refused_in_doubt and quiet:
        return _final_refusal(facts, capabilities, absent=True)
    after_lag = facts.last_sent_at is not None and asked_at > facts.last_sent_at + timedelta(
        seconds=capabilities.lookup_lag_seconds
    )
    may_send = after_lag and (_repeat_is_recognised(capabilities) or quiet)
    if may_send and not facts.refused_in_doubt:
        return Judgement(Verdict.STAY, look_after_seconds=0, in_doubt=facts.in_doubt, absent=True)
    return _look_later(facts, Verdict.STAY, absent=True)


def _unknown(facts: Facts, purpose: Purpose, outcome: Unknown) -> Judgement:
    if purpose is Purpose.ASK:
        return _look_later(facts, Verdict.STAY, attention=outcome.alarm)
    return _look_later(facts, Verdict.DOUBT, in_doubt=True, attention=outcome.alarm)


def _doubt_or_stay(facts: Facts) -> Verdict:
    return Verdict.DOUBT if facts.state == TaskState.SENDING else Verdict.STAY


def _look_later(
    facts: Facts,
    verdict: Verdict,
    *,
    longest: int = LONGEST_LOOK_SECONDS,
    in_doubt: bool = False,
    refused_in_doubt: bool = False,
    absent: bool = False,
    attention: str = "",
) -> Judgement:
    return Judgement(
        verdict,
        look_after_seconds=back_off_seconds(facts.quiet_looks, longest),
        in_doubt=in_doubt or facts.in_doubt,
        refused_in_doubt=refused_in_doubt or facts.refused_in_doubt,
        absent=absent,
        attention=attention,
    )


def back_off_seconds(looks: int, longest: int = LONGEST_LOOK_SECONDS) -> float:
    """Seconds to the next look: doubling, bounded, with a fifth of jitter either way."""
    seconds = float(min(FIRST_LOOK_SECONDS << min(looks, 16), longest))
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, guards nothing
