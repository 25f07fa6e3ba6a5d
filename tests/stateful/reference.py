"""What the desk must say, in plain Python: no database, no clock, no network.

Goods are subjects, each worth something in minor units. How a payment goes is nobody's to predict:
whoever writes down a payment's state, as it is found, calls `conclude`, and everything that follows
is predicted again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from returns.errors import (
    InsufficientBalance,
    Invalid,
    MessageChanged,
    NotAllowed,
    NothingRefundable,
    RefundDeskError,
    Stale,
    UnitsClaimed,
    WrongState,
)
from returns.identity import operation_key, subject_set
from returns.return_request import Item, ReturnRequest

MANAGERS = frozenset({"anna", "boris"})
MAY_TAKE_IN = MANAGERS | {"desk", "web"}
MAY_INSPECT = MANAGERS | {"desk"}
MAY_ASK = MANAGERS | {"fiona"}
MAY_HAND_OVER = MANAGERS | {"desk", "fiona"}

# From where on it takes two managers, and what not even two may approve.
ONE_MANAGER_MINOR = 5_000_00
MOST_MINOR = 20_000_00

UNDECIDED = ("received", "inspected", "approved")
ENDED = ("rejected", "cancelled")
FINAL = ("succeeded", "declined", "returned")

Split = tuple[tuple[str, int], ...]


class Refused(Exception):
    """The service must say no with this error and, where it matters, this code."""

    def __init__(self, error: type[RefundDeskError], code: str = "") -> None:
        super().__init__(f"{error.__name__} {code}".strip())
        self.error = error
        self.code = code


@dataclass(eq=False)
class Payment:
    """One part of a refund on its way to one tender."""

    tender: str
    amount_minor: int
    round: int
    by_hand: bool
    state: str = "pending"
    holder: str = ""
    receipt: str = ""
    begun: bool = False


@dataclass(frozen=True)
class Approval:
    """One manager's yes in one round of paying."""

    by: str
    round: int
    amount_minor: int
    split: Split


@dataclass(eq=False)
class Operation:
    """One return: what it claims, who had a hand in it, and how far its money has come."""

    key: UUID
    claims: dict[str, int]
    live: set[str]
    state: str = "received"
    submitters: set[str] = field(default_factory=set)
    inspector: str = ""
    findings: tuple[frozenset[str], frozenset[str]] | None = None
    approvals: list[Approval] = field(default_factory=list)
    amount_minor: int | None = None
    rounds: int = 0
    payments: list[Payment] = field(default_factory=list)

    @property
    def goods(self) -> list[str]:
        """The units that came back with it, whatever was found about them."""
        return sorted(subject for subject in self.claims if subject.startswith("line:"))

    @property
    def took_part(self) -> set[str]:
        return self.submitters | {self.inspector}

    @property
    def worth_minor(self) -> int:
        return sum(self.claims[subject] for subject in self.live)

    @property
    def refunded_minor(self) -> int:
        return sum(p.amount_minor for p in self.payments if p.state == "succeeded")

    @property
    def owed_minor(self) -> int:
        return (self.amount_minor or 0) - self.refunded_minor

    def held_minor(self, tender: str) -> int:
        """What is reserved for it on a tender."""
        if self.state != "reserved":
            return 0
        return sum(
            payment.amount_minor
            for payment in self.this_round()
            if payment.tender == tender and payment.state not in ("succeeded", "returned")
        )

    def this_round(self) -> list[Payment]:
        return [payment for payment in self.payments if payment.round == self.rounds]


class Reference:
    """One order, its returns and its money."""

    def __init__(
        self, number: str, worth: dict[str, int], tenders: dict[str, int], by_hand: set[str]
    ) -> None:
        self.number = number
        self.worth = worth
        self.captured = tenders
        self.by_hand = by_hand
        self.elsewhere = dict.fromkeys(tenders, 0)
        self.operations: list[Operation] = []
        self._messages: dict[tuple[str, str], tuple[ReturnRequest, Operation]] = {}

    # Goods.

    def take_in(self, request: ReturnRequest, by: str) -> Operation:
        """The return that a message opens or joins, or had its first answer from."""
        _refuse_unless(by in MAY_TAKE_IN, NotAllowed, "role")
        name = (request.channel, request.message_id)
        if name in self._messages:
            earlier, operation = self._messages[name]
            _refuse_unless(earlier == request, MessageChanged)
            return operation
        wanted = self._wanted(request)
        operation = self._holder(wanted) or self._opened(wanted)
        operation.submitters.add(by)
        self._messages[name] = (request, operation)
        return operation

    def live(self) -> dict[str, Operation]:
        """Who holds what."""
        return {subject: op for op in self.operations for subject in op.live}

    def _wanted(self, request: ReturnRequest) -> dict[str, int]:
        wanted = {
            subject: self.worth[subject]
            for item in request.items
            for subject in self._units(item, additional=request.additional)
        }
        if request.shipping:
            wanted["shipping"] = self.worth["shipping"]
        if request.goodwill:
            minor = int(Decimal(request.goodwill.amount) * 100)
            wanted[f"goodwill:{request.goodwill.case.upper()}"] = minor
        return wanted

    def _units(self, item: Item, *, additional: bool) -> list[str]:
        every = sorted(
            subject for subject in self.worth if subject.startswith(f"line:{item.line}/")
        )
        if item.units:
            return [every[unit - 1] for unit in item.units]
        quantity = item.quantity or 0
        free = [subject for subject in every if subject not in self.live()]
        _refuse_unless(not additional or len(free) >= quantity, UnitsClaimed)
        return (free if additional else every)[:quantity]

    def _holder(self, wanted: dict[str, int]) -> Operation | None:
        live = self.live()
        holders = [live[subject] for subject in wanted if subject in live]
        if not holders:
            return None
        one = holders[0]
        same_goods = set(wanted) in (set(one.claims), one.live)
        same_worth = all(one.claims.get(s) == wanted[s] for s in wanted if s in live)
        is_same = all(op is one for op in holders) and same_goods and same_worth
        _refuse_unless(is_same, UnitsClaimed)
        return one

    def _opened(self, wanted: dict[str, int]) -> Operation:
        _refuse_unless(self.remaining_minor() > 0, NothingRefundable)
        extra = sum(minor for subject, minor in wanted.items() if subject.startswith("goodwill:"))
        _refuse_unless(extra <= self.remaining_minor(), InsufficientBalance)
        before = sum(set(op.claims) == set(wanted) for op in self.operations)
        key = operation_key(self.number, subject_set(wanted), before)
        self.operations.append(Operation(key, dict(wanted), set(wanted)))
        return self.operations[-1]

    def inspect(self, op: Operation, good: set[str], bad: set[str], by: str) -> None:
        _refuse_unless(by in MAY_INSPECT, NotAllowed, "role")
        findings = (frozenset(good), frozenset(bad))
        if op.findings == findings:
            return
        _refuse_unless(op.state == "received", WrongState)
        op.findings, op.inspector, op.state = findings, by, "inspected"
        op.live -= bad

    def reject(self, op: Operation, by: str, *, stale: bool = False) -> None:
        _refuse_unless(by in MANAGERS, NotAllowed, "role")
        if op.state == "rejected":
            return
        _refuse_unless(by not in op.took_part, NotAllowed, "own_intake")
        self._end(op, "rejected", stale=stale)

    def withdraw(self, op: Operation, by: str, *, stale: bool = False) -> None:
        _refuse_unless(by in MAY_TAKE_IN, NotAllowed, "role")
        if op.state != "cancelled":
            self._end(op, "cancelled", stale=stale)

    def _end(self, op: Operation, state: str, *, stale: bool) -> None:
        _refuse_unless(op.state in UNDECIDED and op.refunded_minor == 0, WrongState)
        _refuse_unless(not stale, Stale)
        op.state, op.live = state, set()

    # Money.

    def remaining_minor(self, tender: str | None = None) -> int:
        """What a tender, or the order, has left."""
        if tender is None:
            return sum(self.remaining_minor(name) for name in self.captured)
        held, refunded = self.held_minor(tender), self.refunded_minor(tender)
        return self.captured[tender] - held - refunded

    def held_minor(self, tender: str) -> int:
        return sum(op.held_minor(tender) for op in self.operations)

    def refunded_minor(self, tender: str) -> int:
        """By us and by others."""
        payments = (payment for op in self.operations for payment in op.payments)
        return self.elsewhere[tender] + sum(
            p.amount_minor for p in payments if p.tender == tender and p.state == "succeeded"
        )

    def approve(
        self, op: Operation, by: str, minor: int, wanted: Split | None, *, stale: bool = False
    ) -> None:
        _refuse_unless(by in MANAGERS, NotAllowed, "role")
        _refuse_unless(minor > 0, Invalid)
        _refuse_unless(by not in op.took_part, NotAllowed, "own_intake")
        if self._said_before(op, by, minor, wanted):
            return
        _refuse_unless(op.state in ("inspected", "approved"), WrongState)
        _refuse_unless(not stale, Stale)
        _refuse_unless(minor <= MOST_MINOR, NotAllowed, "over_limit")
        _refuse_unless(minor <= self.remaining_minor(), InsufficientBalance)
        if op.amount_minor is None:
            _refuse_unless(minor <= op.worth_minor, Invalid)
        else:
            _refuse_unless(minor == op.owed_minor, Invalid)
        split = self._split(op, minor, wanted)
        op.approvals.append(Approval(by, op.rounds + 1, minor, split))
        op.state = "approved"
        op.amount_minor = op.amount_minor or minor
        if self._enough_agree(op):
            self._reserve(op, split)

    def _said_before(self, op: Operation, by: str, minor: int, wanted: Split | None) -> bool:
        if op.state in ("reserved", "paid", "posted"):
            said = [a for a in op.approvals if a.round == op.rounds]
        elif op.state == "approved":
            said = [a for a in op.approvals if a.round == op.rounds + 1 and a.by == by]
        else:
            return False
        if not said or said[-1].amount_minor != minor:
            return False
        if wanted is not None:
            return dict(said[-1].split) == dict(wanted)
        return op.state != "approved" or said[-1].split == self._split(op, minor, None)

    def _split(self, op: Operation, minor: int, wanted: Split | None) -> Split:
        if wanted is not None:
            for tender, part in wanted:
                _refuse_unless(part <= self.remaining_minor(tender), InsufficientBalance)
            return wanted
        standing = [a for a in op.approvals if a.round == op.rounds + 1][-1:]
        if op.state == "approved" and standing and standing[0].amount_minor == minor:
            split = standing[0].split
            if all(part <= self.remaining_minor(tender) for tender, part in split):
                return split
        parts = []
        for tender in self.captured:
            part = min(minor, self.remaining_minor(tender))
            parts += [(tender, part)] if part else []
            minor -= part
        return tuple(parts)

    def _enough_agree(self, op: Operation) -> bool:
        last = op.approvals[-1]
        words = {a.by: a.split for a in op.approvals if a.round == last.round}
        agreed = {by for by, split in words.items() if split == last.split} - op.submitters
        return last.amount_minor <= ONE_MANAGER_MINOR or len(agreed) >= 2

    def _reserve(self, op: Operation, split: Split) -> None:
        op.rounds += 1
        op.state = "reserved"
        op.payments += [
            Payment(tender, part, op.rounds, tender in self.by_hand) for tender, part in split
        ]

    def conclude(self, op: Operation) -> None:
        """When a round is over the return is paid, or owed again; what came back is owed again."""
        if op.state == "reserved" and all(p.state in FINAL for p in op.this_round()):
            op.state = "approved" if op.owed_minor else "paid"
        elif op.state in ("paid", "posted") and op.owed_minor:
            op.state = "approved"

    # By hand.

    def begin_hand_over(self, payment: Payment, by: str) -> None:
        _refuse_unless(by in MAY_HAND_OVER, NotAllowed, "role")
        _refuse_unless(payment.by_hand, WrongState)
        if (payment.state, payment.holder) == ("sending", by):
            return
        _refuse_unless(payment.state == "pending", WrongState)
        payment.state, payment.holder, payment.begun = "sending", by, True

    def confirm_hand_over(self, op: Operation, payment: Payment, by: str, receipt: str) -> None:
        _refuse_unless(by in MAY_HAND_OVER, NotAllowed, "role")
        _refuse_unless(payment.by_hand, WrongState)
        if (payment.state, payment.receipt) == ("succeeded", receipt):
            return
        _refuse_unless(payment.state == "sending", WrongState)
        known = {p.receipt for other in self.operations for p in other.payments}
        _refuse_unless(receipt not in known, Invalid)
        payment.state, payment.receipt = "succeeded", receipt
        self.conclude(op)

    def abandon_hand_over(self, payment: Payment, by: str) -> None:
        _refuse_unless(by in MAY_HAND_OVER, NotAllowed, "role")
        _refuse_unless(payment.by_hand, WrongState)
        if payment.state == "pending" and payment.begun:
            return
        _refuse_unless(payment.state == "sending", WrongState)
        _refuse_unless(by == payment.holder or by in MAY_ASK, NotAllowed, "role")
        payment.state = "pending"

    def ask_again(self, by: str) -> None:
        _refuse_unless(by in MAY_ASK, NotAllowed, "role")

    def declare_unpaid(self, op: Operation, payment: Payment, by: str) -> None:
        """Of a payment that was set aside only the provider's book can tell: not asked here."""
        _refuse_unless(by in MAY_ASK, NotAllowed, "role")
        if payment.state == "declined":
            return
        _refuse_unless(payment.by_hand and payment.state == "pending", WrongState)
        payment.state = "declined"
        self.conclude(op)


def _refuse_unless(fine: bool, error: type[RefundDeskError], code: str = "") -> None:
    if not fine:
        raise Refused(error, code)
