"""One story: its world, what the reference says, what the witness sees, and the final verdict."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db import connection
from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, invariant

from config.fail_points import arm
from payments.models import PaymentAttempt, PaymentTask
from reconciliation import mismatches
from reconciliation.models import ErpPosting, Mismatch, PostingAttempt
from returns.errors import RefundDeskError
from returns.models import Claim, RefundOperation, TenderBalance
from tests.oracle import assert_figures, assert_replay_changes_nothing
from tests.races.staging import PATIENCE_SECONDS, alone, until
from tests.sandboxes import Json
from tests.stateful import goods
from tests.stateful.reference import FINAL, Operation, Payment, Reference, Refused
from tests.stateful.witness import KEY_MEMORY_SECONDS, Attempt, Calls, Ledger, may_become
from tests.stateful.workers import StoppedWorker
from tests.stateful.world import World
from tests.workers import run_until_done

Thing = TypeVar("Thing")
Answer = object


@dataclass(frozen=True)
class Deed:
    """Something that a person does, and what the reference says to it."""

    verb: Callable[[], Answer]
    said: Callable[[], Answer]

    def answer(self) -> Answer:
        """Of the service: what came of it, or the error it refused with."""
        try:
            return self.verb()
        except RefundDeskError as error:
            return error

    def expected(self) -> Answer:
        """Of the reference."""
        try:
            return self.said()
        except Refused as refusal:
            return refusal


class Story(RuleBasedStateMachine):
    """What every step has at hand. Counts its steps in `told`, for the figures of the run."""

    reference: Reference

    def __init__(self, world: World, people: dict[str, User], told: dict[str, int]) -> None:
        super().__init__()
        self.world = world
        self.people = people
        self.told = told
        self.ledger = Ledger()
        self.payment_calls = Calls("payment", key_memory_seconds=KEY_MEMORY_SECONDS)
        self.posting_calls = Calls("posting", key_memory_seconds=None)
        self.stopped: list[StoppedWorker] = []
        self.row_of: dict[Payment, int] = {}
        # What the provider calls the tenders' payments.
        self.tender_of: dict[str, str] = {}
        # Events about others' refunds: all that were heard, and those that fitted nowhere.
        self.told_before: set[str] = set()
        self.unbookable: set[int] = set()
        self._read_until = {PaymentAttempt: 0, PostingAttempt: 0}

    def begin(self, prices: str, paid_with: str) -> None:
        """An order in an empty world."""
        self.world.begin()
        self.world.when_time_passes(self._sleepers_sleep)
        worth = goods.worth_of(goods.PRICES[prices])
        paid = goods.shares(sum(worth.values()), goods.TENDERS[paid_with])
        order = goods.sold(goods.PRICES[prices], paid)
        self.world.provider.know_payments()
        cards = order.tenders.filter(provider="stripe")
        self.tender_of = dict(cards.values_list("payment", "tender_id"))
        self.reference = Reference(order.number, worth, paid, set(goods.BY_HAND))

    def _sleepers_sleep(self, seconds: int) -> None:
        for worker in self.stopped:
            worker.sleep(seconds)

    # Picking: any number means something, as long as there is anything.

    def operation(self, which: int) -> Operation:
        return self.reference.operations[which % len(self.reference.operations)]

    def payment(self, which: int) -> tuple[Operation, Payment] | None:
        return pick([(op, p) for op in self.reference.operations for p in op.payments], which)

    def posting(self, which: int) -> int | None:
        return pick(list(ErpPosting.objects.order_by("pk").values_list("pk", flat=True)), which)

    # Doing.

    def agree_on(self, deed: Deed) -> None:
        """The service answers as the reference does."""
        agree(deed.answer(), deed.expected())

    def agree_on_both(self, point: str, first: Deed, second: Deed) -> None:
        """The second comes while the first, at this fail point, has not committed yet."""
        answers = meanwhile(point, first.answer, second.answer)
        for answer, deed in zip(answers, (first, second), strict=True):
            agree(answer, deed.expected())

    def hear(self, event: Json) -> None:
        """What others have refunded is booked, where it fits into what is left."""
        stored = self.world.deliver(event)
        note(f"    {stored.kind}: {stored.standing}, {stored.note}")
        refund = event["data"]["object"]
        if "payment_key" in refund["metadata"] or refund["status"] != "succeeded":
            return
        tender = self.tender_of[refund["payment_intent"]]
        fits = refund["amount"] <= self.reference.remaining_minor(tender)
        if event["id"] in self.told_before:
            return
        self.told_before.add(event["id"])
        if fits:
            self.reference.elsewhere[tender] += refund["amount"]
        else:
            self.unbookable.add(stored.pk)
        assert stored.standing == ("applied" if fits else "not_understood")

    # What is true after every step.

    @invariant()
    def everything_holds(self) -> None:
        self.told["steps"] += 1
        self.look()
        self._compare()
        if self._somebody_is_needed():
            mismatches.open_new()
        assert_figures(
            self.ledger.ours(),
            self.world.erp.entries(),
            self.world.unheard() if self.ledger.refunds else (),
        )

    def look(self) -> None:
        """See what workers and provider have done, and what became of the payments."""
        self._witness()
        self._observe()

    def _witness(self) -> None:
        for rows, calls in (
            (PaymentAttempt, self.payment_calls),
            (PostingAttempt, self.posting_calls),
        ):
            new = rows.objects.filter(pk__gt=self._read_until[rows]).order_by("pk")
            seen = list(new.values_list("row_id", "lease", "purpose", "step", "outcome", "pk"))
            calls.see([Attempt(*facts[:-1]) for facts in seen], self.world.now)
            self._read_until[rows] = seen[-1][-1] if seen else self._read_until[rows]
        self.ledger.see(self.world.provider.ledger(), self.world.now)

    def _observe(self) -> None:
        """Take over what became of the payments, where that can be true."""
        payments = {
            (op.key, p.tender, p.round, p.amount_minor): (op, p)
            for op in self.reference.operations
            for p in op.payments
        }
        rows = PaymentTask.objects.order_by("pk").values_list(
            *("operation__operation_key", "tender__tender_id", "generation", "amount_minor"),
            *("pk", "wire_key", "state"),
        )
        found = {facts[:4]: facts[4:] for facts in rows}
        assert found.keys() == payments.keys(), "the payments are not what was approved"
        for facts, (_, payment) in payments.items():
            pk, wire_key, state = found[facts]
            self.row_of[payment] = pk
            if state != payment.state:
                self._believe(payment, str(wire_key), state)
                note(f"    {payment.amount_minor} on {payment.tender}: {state}")
                payment.state = state
        for op in self.reference.operations:
            self.reference.conclude(op)

    def _believe(self, payment: Payment, wire_key: str, state: str) -> None:
        assert not payment.by_hand, f"{payment} is {state}, and nobody did that"
        under_way = self.world.keys_under_way() if state == "declined" else ()
        story = self.payment_calls.stories[self.row_of[payment]]
        true = may_become(state, wire_key, self.ledger, story, under_way, self.world.now)
        assert true, f"{payment} is {state}, after {story}; the provider says {self.ledger.ours()}"

    def _compare(self) -> None:
        found = {row.operation_key: row for row in RefundOperation.objects.all()}
        assert found.keys() == {op.key for op in self.reference.operations}
        for op in self.reference.operations:
            row = found[op.key]
            if (op.state, row.state) == ("paid", "posted"):
                op.state = "posted"
            figures = (row.state, row.amount_minor, row.refunded_minor, row.pay_rounds)
            assert figures == (op.state, op.amount_minor, op.refunded_minor, op.rounds)
            by_hand = sum(
                p.amount_minor for p in op.payments if p.by_hand and p.state == "succeeded"
            )
            moved_minor = self.ledger.moved_minor(str(op.key)) + by_hand
            assert moved_minor <= (op.amount_minor or 0), f"{op} was paid {moved_minor}"
        live = Claim.objects.filter(live=True).values_list("subject", "operation__operation_key")
        assert dict(live) == {subject: op.key for subject, op in self.reference.live().items()}
        balances = TenderBalance.objects.values_list(
            *("tender__tender_id", "reserved_minor", "refunded_minor", "external_minor")
        )
        assert {name: tuple(figures) for name, *figures in balances} == {
            name: (
                self.reference.held_minor(name),
                self.reference.refunded_minor(name),
                self.reference.elsewhere[name],
            )
            for name in self.reference.captured
        }

    def _somebody_is_needed(self) -> bool:
        payments = [p.state for op in self.reference.operations for p in op.payments]
        return "stuck" in payments or ErpPosting.objects.filter(state="stuck").exists()

    # The end.

    def teardown(self) -> None:
        """What went well so far is taken to its end: nothing lost, doubled or forgotten."""
        if sys.exception() is not None or not hasattr(self, "reference"):
            return
        self._settle_down()
        run_until_done(self.world.provider, within_seconds=2 * 60 * 60, wait=self._wait)
        self.everything_holds()
        self.told["stories"] += 1
        self._nothing_is_forgotten()
        assert_replay_changes_nothing()

    def _settle_down(self) -> None:
        """Nothing goes wrong any more: the late arrives, the pending succeeds, all is told."""
        self.world.clear_up()
        for refund in self.world.provider.ledger():
            if refund["status"] == "pending":
                self.world.provider.move_refund(refund["refund"], "succeeded")
        for event in self.world.events():
            if event["id"] not in self.world.delivered:
                self.hear(event)

    def _wait(self, seconds: float) -> None:
        self._witness()
        self.world.pass_time(math.ceil(seconds))

    def _nothing_is_forgotten(self) -> None:
        open_items = Mismatch.objects.filter(status=Mismatch.Status.OPEN)
        with_a_person = set(open_items.values_list("payment_id", flat=True))
        credits_in_question = set(
            open_items.values_list("posting__operation__operation_key", flat=True)
        )
        told = set(open_items.values_list("event_id", flat=True))
        assert self.unbookable <= told, "nobody was told of a refund that was not made here"
        for op in self.reference.operations:
            for payment in op.payments:
                waits = payment.by_hand and payment.state in ("pending", "sending")
                done = payment.state in FINAL or waits
                assert done or self.row_of[payment] in with_a_person, f"{payment} is forgotten"
            posted = op.state != "paid" or op.key in credits_in_question
            assert posted, f"{op} is paid and not in the books"
        drafts = [entry for entry in self.world.erp.entries() if entry["state"] != "posted"]
        unposted = {str(key) for key in credits_in_question}
        assert {entry["reference"] for entry in drafts} <= unposted, f"forgotten drafts: {drafts}"


def pick(things: Sequence[Thing], which: int) -> Thing | None:
    """One of them, whatever the number; None of none."""
    return things[which % len(things)] if things else None


def agree(answer: Answer, expected: Answer) -> None:
    """Both said the same: the same result, or no for the same reason."""
    note(f"    {answer!r}")
    if not isinstance(expected, Refused):
        assert answer == expected, f"the service: {answer!r}, the reference: {expected!r}"
        return
    assert isinstance(answer, RefundDeskError), f"{answer!r} should be refused: {expected}"
    assert type(answer) is expected.error, f"{answer!r} should be {expected}"
    assert expected.code in ("", answer.code), f"{answer!r} should be {expected}"


def meanwhile(point: str, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    """Both results, the second begun when the first came to the point, or else after it.

    The first goes on when the second is over or waits for it.
    """
    later: list[Future[Any]] = []

    def interrupt() -> None:
        disarm()
        later.append(pool.submit(alone, second))
        until(lambda: later[0].done() or _somebody_waits_for_us())

    with ThreadPoolExecutor(max_workers=1) as pool:
        disarm = arm(point, interrupt)
        try:
            one = first()
        finally:
            disarm()
        return one, later[0].result(PATIENCE_SECONDS) if later else second()


def _somebody_waits_for_us() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted"
            " AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
        )
        (waits,) = cursor.fetchone()
    return bool(waits)
