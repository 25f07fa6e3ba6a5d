"""What happens to one order of the soak, drawn by lot: the story, the faults, the end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import TypeVar


class Story(StrEnum):
    """What people do."""

    ONE_MESSAGE = "one message"
    TWO_CHANNELS = "two channels at once"
    DUPLICATES = "duplicate messages"
    PARTS = "parts of which only some fit"


class Ending(StrEnum):
    """What outsiders do to it afterwards, and so where it must end."""

    POSTED = "posted"
    # The provider holds the refund until the bank has decided.
    BANK_PAYS = "pending, then succeeded"
    BANK_REFUSES = "pending, then failed"
    COMES_BACK = "failed after success"
    BOOKS_REFUSE = "refused by the ERP"


class Target(StrEnum):
    """The request that a fault is meant for."""

    REFUND = "refund"
    REFUND_LOOK_UP = "refund look-up"
    ENTRY = "entry"
    ENTRY_LOOK_UP = "entry look-up"
    ENTRY_POST = "entry post"


@dataclass(frozen=True)
class Fault:
    """One request that goes wrong; `seconds` as the mode understands them."""

    mode: str
    target: Target
    seconds: float = 1.0


@dataclass(frozen=True)
class Scenario:
    """All that is drawn for one order."""

    story: Story
    ending: Ending
    faults: tuple[Fault, ...]

    @property
    def returns(self) -> int:
        """How many returns there are of it."""
        return PARTS if self.story is Story.PARTS else 1

    @property
    def fit(self) -> int:
        """How many of them can be paid."""
        return FIT if self.story is Story.PARTS else 1


# So many parts of 30 % are asked for at once, and so many fit.
PARTS = 4
FIT = 3

# How late a request may arrive, as a share of what the demo declares as the longest way.
LATE_SHARES = (0.05, 0.8)
# Some answers come in time, some later than anybody waits.
SLOW_REFUND_SECONDS = (1.0, 16.0)
SLOW_ENTRY_SECONDS = (1.0, 5.0)
# Refused credentials stop the whole account for a while, so they are rare: one order in so many.
ORDERS_FOR_A_HALT = 500

STORIES = {Story.ONE_MESSAGE: 35, Story.TWO_CHANNELS: 35, Story.DUPLICATES: 20, Story.PARTS: 10}
ENDINGS = {
    Ending.POSTED: 82,
    Ending.BANK_PAYS: 6,
    Ending.BANK_REFUSES: 4,
    Ending.COMES_BACK: 5,
    Ending.BOOKS_REFUSE: 3,
}
# How many calls of an order go wrong on the way, at the provider and at the ERP.
PROVIDER_FAULTS = {0: 35, 1: 45, 2: 20}
ERP_FAULTS = {0: 80, 1: 20}
# After these the provider may have paid, or may not.
DOUBTS = {
    "drop_before": 3,
    "drop_after": 4,
    "error_before": 2,
    "error_after": 2,
    "garbage_after": 2,
    "slow": 1,
    "late": 2,
}
# After these it certainly has not.
CERTAIN = {"rate_limit": 2, "decline": 3, "insufficient_balance": 1}
LOOK_UP_MODES = {
    "drop_before": 3,
    "drop_after": 1,
    "error_before": 2,
    "garbage_after": 1,
    "slow": 1,
    "rate_limit": 1,
}
ERP_MODES = {
    "drop_before": 3,
    "drop_after": 3,
    "error_before": 3,
    "error_after": 3,
    "garbage_after": 3,
    "slow": 1,
    "late": 3,
    "rate_limit": 2,
    "unauthorized": 2,
}
ERP_TARGETS = {Target.ENTRY: 3, Target.ENTRY_LOOK_UP: 1, Target.ENTRY_POST: 2}
ERP_REFUSALS = ("refuse", "closed_period")

T = TypeVar("T")


def draw(lot: Random, index: int, longest_way_seconds: float) -> Scenario:
    """The scenario of the order of this index; no request travels as long as it could."""
    story = _one_of(lot, STORIES)
    # Money that is freed again would let the part that did not fit have a place after all.
    ending = Ending.POSTED if story is Story.PARTS else _one_of(lot, ENDINGS)
    drawn = [*_at_the_provider(lot, story, ending), *_at_the_erp(lot, ending)]
    faults = [_timed(fault, lot, longest_way_seconds) for fault in drawn]
    if index % ORDERS_FOR_A_HALT == 1:
        faults.insert(0, Fault("unauthorized", Target.REFUND))
    return Scenario(story, ending, tuple(faults))


def _at_the_provider(lot: Random, story: Story, ending: Ending) -> list[Fault]:
    modes = DOUBTS if story is Story.PARTS else DOUBTS | CERTAIN
    drawn = [_one_of(lot, modes) for _ in range(_one_of(lot, PROVIDER_FAULTS))]
    faults = [Fault(mode, Target.REFUND) for mode in drawn]
    if any(mode in DOUBTS for mode in drawn) and lot.random() < 0.5:
        faults.append(Fault(_one_of(lot, LOOK_UP_MODES), Target.REFUND_LOOK_UP))
    if ending in (Ending.BANK_PAYS, Ending.BANK_REFUSES):
        faults.append(Fault("pending", Target.REFUND))
    return faults


def _at_the_erp(lot: Random, ending: Ending) -> list[Fault]:
    if ending is Ending.BOOKS_REFUSE:
        return [Fault(lot.choice(ERP_REFUSALS), Target.ENTRY)]
    times = _one_of(lot, ERP_FAULTS)
    return [Fault(_one_of(lot, ERP_MODES), _one_of(lot, ERP_TARGETS)) for _ in range(times)]


def _timed(fault: Fault, lot: Random, longest_way_seconds: float) -> Fault:
    if fault.mode == "late":
        return replace(fault, seconds=round(longest_way_seconds * lot.uniform(*LATE_SHARES), 1))
    if fault.mode == "slow":
        at_the_erp = fault.target in ERP_TARGETS
        slow = SLOW_ENTRY_SECONDS if at_the_erp else SLOW_REFUND_SECONDS
        return replace(fault, seconds=round(lot.uniform(*slow), 1))
    return fault


def _one_of(lot: Random, weights: Mapping[T, int]) -> T:
    return lot.choices(list(weights), list(weights.values()))[0]
