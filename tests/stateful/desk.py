"""What people do: messages, inspections, decisions, handing money over."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from payments import handover, settlement
from payments.approval import Seen, approve
from returns import closing, inspection, intake
from returns.inspection import UnitFound
from returns.models import RefundOperation
from returns.return_request import ReturnRequest
from tests.stateful import goods
from tests.stateful.reference import Operation, Split
from tests.stateful.story import Deed, Story

WHICH = st.integers(0, 3)
WHO = st.sampled_from(["anna", "boris", "desk", "web", "fiona"])
# Who may decide, and often has no hand in it.
DECIDES = st.sampled_from(["anna", "boris", "anna", "boris", "desk"])
ASKS = st.sampled_from(sorted(goods.ASKS))
CHANNELS = st.sampled_from(["counter", "online"])
HOW_MUCH = st.sampled_from(["all", "all", "all", "half", "a cent more", "nothing"])

# Where each decision holds its locks and has not committed.
POINTS = {
    "approve": "approval-written",
    "reject": "return-closed",
    "withdraw": "return-closed",
}
DECISIONS = st.sampled_from(sorted(POINTS))


class Intake(Story):
    """What comes in."""

    @rule(ask=ASKS, channel=CHANNELS, number=st.integers(1, 6), by=WHO)
    def message(self, ask: str, channel: str, number: int, by: str) -> None:
        self.agree_on(self._take_in(ask, channel, number, by))

    @rule(
        first=ASKS,
        second=ASKS,
        numbers=st.permutations((1, 2, 7, 8)),
        by=st.permutations(["desk", "web"]),
    )
    def two_messages_at_once(
        self, first: str, second: str, numbers: list[int], by: list[str]
    ) -> None:
        deeds = [
            self._take_in(ask, "counter", number, who)
            for ask, number, who in zip((first, second), numbers, by, strict=False)
        ]
        self.agree_on_both("message-stored", *deeds)

    def _take_in(self, ask: str, channel: str, number: int, by: str) -> Deed:
        request = ReturnRequest(
            channel, f"message-{number}", self.reference.number, **goods.ASKS[ask]
        )
        return Deed(
            lambda: (
                intake.open_or_join(request=request, by=self.people[by]).operation.operation_key
            ),
            lambda: self.reference.take_in(request, by).key,
        )

    @rule(which=WHICH, by=WHO, bad=st.sampled_from(["none", "none", "first", "all"]))
    def inspect(self, which: int, by: str, bad: str) -> None:
        op = self.operation(which)
        unfit = {"none": 0, "first": 1, "all": len(op.goods)}[bad]
        rejected, accepted = op.goods[:unfit], op.goods[unfit:]

        def verb() -> str:
            inspected = inspection.inspect(
                operation_key=op.key,
                by=self.people[by],
                accepted=[_unit(subject) for subject in accepted],
                rejected=[_unit(subject) for subject in rejected],
            )
            return str(inspected.state)

        def said() -> str:
            self.reference.inspect(op, set(accepted), set(rejected), by)
            return op.state

        self.agree_on(Deed(verb, said))


class Decisions(Story):
    """What is decided about it."""

    @rule(
        which=WHICH,
        by=DECIDES,
        how_much=HOW_MUCH,
        tender=st.sampled_from(["", "", "card", "last"]),
        seen=st.sampled_from(["", "now", "an older version", "another balance"]),
    )
    def approve(self, which: int, by: str, how_much: str, tender: str, seen: str) -> None:
        op = self.operation(which)
        self.agree_on(self._approve(op, by, how_much, tender, seen))

    @rule(which=WHICH, decision=DECISIONS, by=DECIDES, old=st.booleans())
    def decide(self, which: int, decision: str, by: str, old: bool) -> None:
        self.agree_on(self._decision(decision, self.operation(which), by, old=old))

    @rule(first=DECISIONS, which=WHICH, second=DECISIONS, other=WHICH)
    def two_decisions_at_once(self, first: str, which: int, second: str, other: int) -> None:
        """Anna's transaction is not over when Boris decides on this return or another."""
        deeds = [
            self._decision(decision, self.operation(number), by)
            for decision, number, by in ((first, which, "anna"), (second, other, "boris"))
        ]
        self.agree_on_both(POINTS[first], *deeds)

    def _decision(self, decision: str, op: Operation, by: str, *, old: bool = False) -> Deed:
        if decision == "approve":
            return self._approve(op, by, "all", "", "an older version" if old else "")
        end, said = {
            "reject": (closing.reject, self.reference.reject),
            "withdraw": (closing.withdraw, self.reference.withdraw),
        }[decision]
        seen = _version(op) - 1 if old else None

        def verb() -> str:
            who = self.people[by]
            ended = end(operation_key=op.key, by=who, reason="so it is", seen_version=seen)
            return str(ended.state)

        def expected() -> str:
            said(op, by, stale=old)
            return op.state

        return Deed(verb, expected)

    def _approve(self, op: Operation, by: str, how_much: str, tender: str, seen: str) -> Deed:
        owed_minor = op.worth_minor if op.amount_minor is None else op.owed_minor
        minor = {"all": owed_minor, "half": owed_minor // 2, "nothing": 0}.get(
            how_much, owed_minor + 1
        )
        names = list(self.reference.captured)
        named = {"card": names[0], "last": names[-1]}.get(tender)
        split: Split | None = ((named, minor),) if named else None
        remaining_minor = self.reference.remaining_minor()
        saw = {
            "now": Seen(_version(op), remaining_minor),
            "an older version": Seen(version=_version(op) - 1),
            "another balance": Seen(remaining_minor=remaining_minor + 1),
        }.get(seen)

        def verb() -> str:
            approved = approve(
                operation_key=op.key,
                by=self.people[by],
                amount_minor=minor,
                tenders=dict(split) if split else None,
                seen=saw,
            )
            return str(approved.state)

        def said() -> str:
            stale = seen in ("an older version", "another balance")
            self.reference.approve(op, by, minor, split, stale=stale)
            return op.state

        return Deed(verb, said)


class Payout(Story):
    """What people do about payments."""

    @rule(
        which=WHICH,
        by=WHO,
        step=st.sampled_from(["begin", "confirm", "abandon"]),
        receipt=st.sampled_from(["receipt 1", "receipt 2"]),
    )
    def hand_over(self, which: int, by: str, step: str, receipt: str) -> None:
        found = self.payment(which)
        if found is None:
            return
        op, payment = found
        task: dict[str, Any] = {"task_id": self.row_of[payment], "by": self.people[by]}
        deeds = {
            "begin": Deed(
                lambda: done(handover.start(**task)),
                partial(self.reference.begin_hand_over, payment, by),
            ),
            "confirm": Deed(
                lambda: done(handover.confirm(**task, reference=receipt)),
                partial(self.reference.confirm_hand_over, op, payment, by, receipt),
            ),
            "abandon": Deed(
                lambda: done(handover.abandon(**task, reason="it was not there")),
                partial(self.reference.abandon_hand_over, payment, by),
            ),
        }
        self.agree_on(deeds[step])

    @rule(which=WHICH, by=st.sampled_from(["anna", "fiona", "fiona", "desk"]), ask=st.booleans())
    def doubt_is_decided(self, which: int, by: str, ask: bool) -> None:
        """Ask the provider again, or declare a payment unpaid."""
        found = self.payment(which)
        if found is None:
            return
        op, payment = found
        task: dict[str, Any] = {"task_id": self.row_of[payment], "by": self.people[by]}
        if ask:
            deed = Deed(
                lambda: done(settlement.ask_again(**task)), partial(self.reference.ask_again, by)
            )
        else:
            deed = Deed(
                lambda: done(settlement.declare_unpaid(**task, reason="the till is full")),
                partial(self.reference.declare_unpaid, op, payment, by),
            )
        if payment.state == "stuck" and not ask:
            # Whether that is proven only the provider's book can say: the witness looks.
            deed.answer()
        else:
            self.agree_on(deed)


def done(_: object) -> None:
    """The answer of a verb that only does something."""


def _unit(subject: str) -> UnitFound:
    line, unit = subject.split("/")
    return UnitFound(line.removeprefix("line:"), int(unit.removeprefix("unit:")))


def _version(op: Operation) -> int:
    return RefundOperation.objects.get(operation_key=op.key).version
