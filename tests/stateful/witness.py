"""What nobody may ever see, whatever the network does: the protocol's rules, from outside.

The witness reads two books, the attempts that workers noted and the provider's own ledger, and
keeps time. It knows no state of ours and none of the product's decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sandboxes import Json

KEY_MEMORY_SECONDS = 24 * 60 * 60
LONGEST_UNDER_WAY_SECONDS = 15 * 60


class Attempt(NamedTuple):
    """One step of a call, as the worker noted it."""

    row: int
    lease: int
    purpose: str
    step: str
    outcome: str


@dataclass
class Story:
    """What has been tried for one payment or posting."""

    key_taken_at: int | None = None
    last_sent_at: int = 0
    # Sent, and no answer since, neither to that nor to a look-up.
    unanswered: bool = False
    # Some send was never answered: what it did is known only from a look-up.
    in_doubt: bool = False
    # A look-up saw nothing at a time when nothing could be under way any more.
    proven_undone: bool = False
    last_outcome: tuple[str, str] = ("", "")
    leases: list[int] = field(default_factory=list)

    @property
    def is_doubtful(self) -> bool:
        return self.in_doubt or self.unanswered


class Calls:
    """The calls of all rows of one protocol."""

    def __init__(self, name: str, *, key_memory_seconds: int | None) -> None:
        self._name = name
        self._key_memory_seconds = key_memory_seconds
        self.stories: defaultdict[int, Story] = defaultdict(Story)

    def see(self, attempts: Iterable[Attempt], now: int) -> None:
        """Read what workers noted since the last time; fails where a rule was broken."""
        for attempt in attempts:
            story = self.stories[attempt.row]
            if attempt.step == "started":
                self._started(story, attempt, now)
            else:
                self._ended(story, attempt, now)

    def _started(self, story: Story, attempt: Attempt, now: int) -> None:
        where = f"{self._name} {attempt.row}"
        assert attempt.lease not in story.leases, f"{where}: two workers under one lease"
        story.leases.append(attempt.lease)
        if attempt.purpose != "send":
            return
        assert not story.unanswered, f"{where} was sent again before anybody asked"
        if self._key_memory_seconds is not None and story.key_taken_at is not None:
            age = now - story.key_taken_at
            assert age < self._key_memory_seconds, f"{where} was sent again {age} s later"
        if story.key_taken_at is None:
            story.key_taken_at = now
        story.unanswered = True
        story.proven_undone = False
        story.last_sent_at = now

    def _ended(self, story: Story, attempt: Attempt, now: int) -> None:
        where = f"{self._name} {attempt.row}"
        assert attempt.lease == story.leases[-1], f"{where}: written by a worker long overtaken"
        story.last_outcome = (attempt.purpose, attempt.outcome)
        if attempt.purpose == "send":
            self._answered(story, attempt.outcome)
            return
        story.in_doubt |= story.unanswered
        if attempt.outcome != "unknown":
            story.unanswered &= attempt.outcome == "deferred"
        if attempt.outcome == "absent":
            story.proven_undone |= now - story.last_sent_at > LONGEST_UNDER_WAY_SECONDS

    @staticmethod
    def _answered(story: Story, outcome: str) -> None:
        story.unanswered = outcome == "unknown"
        story.in_doubt |= outcome == "unknown"
        if outcome == "deferred" and not story.in_doubt:
            story.key_taken_at = None


class Ledger:
    """The provider's book: every refund there ever was, and everything it has been."""

    def __init__(self) -> None:
        self.refunds: dict[str, Json] = {}
        self._been: defaultdict[str, set[str]] = defaultdict(set)
        self._first_seen: dict[str, int] = {}
        # Made by others than the product.
        self.foreign: set[str] = set()

    def see(self, refunds: Iterable[Json], now: int) -> None:
        """Read the book again; fails where one key has moved money twice."""
        self.refunds = {refund["refund"]: refund for refund in refunds}
        for name, refund in self.refunds.items():
            self._been[name].add(refund["status"])
            self._first_seen.setdefault(name, now)
        keys = [refund["idempotency_key"] for refund in self.ours()]
        twice = {key for key in keys if keys.count(key) > 1}
        assert not twice, f"one key moved money twice: {twice}"

    def of_key(self, wire_key: str) -> Json | None:
        """Our one refund under a key."""
        found = [refund for refund in self.ours() if refund["idempotency_key"] == wire_key]
        return found[0] if found else None

    def under_key(self, wire_key: str, now: int) -> list[Json]:
        """Every refund under a key; of others' only those whose key is still remembered."""
        return [
            refund
            for name, refund in self.refunds.items()
            if refund["idempotency_key"] == wire_key
            and (name not in self.foreign or now - self._first_seen[name] < KEY_MEMORY_SECONDS)
        ]

    def moved_minor(self, key: str) -> int:
        """What has left, or may yet, for the operation of this key."""
        return sum(
            refund["amount"]
            for refund in self.ours()
            if refund["operation_key"] == key and refund["status"] != "failed"
        )

    def has_been(self, refund: Json | None, status: str) -> bool:
        return refund is not None and status in self._been[refund["refund"]]

    def ours(self) -> list[Json]:
        """What we have asked for."""
        return [refund for name, refund in self.refunds.items() if name not in self.foreign]


def may_become(
    state: str, wire_key: str, ledger: Ledger, story: Story, under_way: Collection[str], now: int
) -> bool:
    """Whether what is now said of a payment is true at the provider, and was to be known."""
    refund = ledger.of_key(wire_key)
    if state in ("accepted", "succeeded", "returned"):
        told = {"succeeded": "succeeded", "returned": "failed"}.get(state)
        return refund is not None and (told is None or ledger.has_been(refund, told))
    if state != "declined":
        return True
    moved = [refund["status"] for refund in ledger.under_key(wire_key, now)]
    seen = story.last_outcome == ("ask", "refused") or story.proven_undone
    if moved:
        return set(moved) == {"failed"}
    return (seen or not story.is_doubtful) and wire_key not in under_way
