"""What happens to payments: workers and their deaths, the provider's faults and news, time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import httpx
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import rule

from payments import dispatch
from payments.models import PaymentTask
from payments.outbound import Claim
from reconciliation.sweeping import sweep
from tests.payments.reading import made_elsewhere
from tests.sandboxes import Sandbox
from tests.stateful.desk import WHICH
from tests.stateful.story import Story, meanwhile, pick
from tests.stateful.workers import Paying, Phases, StoppedWorker

# The provider's faults: before the effect, after it, and what it may say instead of yes.
LOST = ["drop_before", "drop_after", "error_before", "error_after", "garbage_after", "late"]
SAYS_NO = ["decline", "insufficient_balance", "disputed"]
SAYS_LATER = ["rate_limit", "unauthorized", "same_amount"]
FAULTS = st.sampled_from([*LOST, *SAYS_NO, *SAYS_LATER, "pending", "pending", "pending", "slow"])
LOOK_UP_FAULTS = st.sampled_from(
    ["drop_before", "error_before", "garbage_after", "rate_limit", "unauthorized"]
)
SENDS_GO_WRONG = st.lists(FAULTS, max_size=2)
LOOK_UPS_GO_WRONG = st.lists(LOOK_UP_FAULTS, max_size=1)
# A worker's step: to its end, or it stops after the claim or after the call, perhaps for ever.
ENDS = st.sampled_from(["done", "done", "claimed", "called"])
# Ours can be told from what others send, and only ours go wrong.
OURS = "metadata[payment_key]"
LOOK_UPS = "GET /v1/refunds"
# Longer than any story: what is late arrives when the story says so.
NOT_BY_ITSELF = 24 * 60 * 60

BANK_MOVES = {("pending", "succeeded"), ("pending", "failed"), ("succeeded", "failed")}

SECOND, MINUTE, HOUR = 1, 60, 60 * 60
TIMES = st.sampled_from([SECOND, 5, 40, 20 * MINUTE, 3 * HOUR, 25 * HOUR])


class Wire(Story):
    """Between us and the provider."""

    @rule(which=WHICH, wrong=SENDS_GO_WRONG, ends=ENDS)
    def work(self, which: int, wrong: list[str], ends: str) -> None:
        """The queue's worker takes a payment as far as it goes."""
        goes_wrong(self.world.provider, wrong, OURS)
        if found := self.payment(which):
            row = self.row_of[found[1]]
            self.step(ends, partial(dispatch.pay, row), Paying(), row)

    def step(self, ends: str, whole: Callable[[], object], phases: Phases, row: int) -> None:
        """All of a worker's step, or as far as it comes."""
        if ends == "done":
            whole()
            return
        claim = phases.claim(row)
        if isinstance(claim, Claim):
            outcome = phases.call(claim) if ends == "called" else None
            self.stopped.append(StoppedWorker(phases, claim, outcome))
            note(f"    stopped; was to {claim.purpose}: {outcome}")

    @rule(which=WHICH)
    def worker_wakes(self, which: int) -> None:
        """Who has slept past the lease calls nobody; who was overtaken writes nothing."""
        worker = pick(self.stopped, which)
        if worker is None:
            return
        self.stopped.remove(worker)
        late, overtaken = worker.is_late, worker.is_overtaken
        called, wrote = worker.wake()
        note(f"    late: {late}, overtaken: {overtaken}; called: {called}, wrote: {wrote}")
        assert not (late and called), "a worker called after its lease"
        assert not (overtaken and wrote), "a worker wrote although its lease was gone"

    @rule(after=TIMES, wrong=SENDS_GO_WRONG, blind=LOOK_UPS_GO_WRONG)
    def sweep(self, after: int, wrong: list[str], blind: list[str]) -> None:
        """Time passes, and everything that is due by then is looked after."""
        self.world.pass_time(after)
        goes_wrong(self.world.provider, wrong, OURS)
        goes_wrong(self.world.provider, blind, LOOK_UPS)
        sweep(threads=1)

    @rule(seconds=TIMES, arrives=st.booleans())
    def time_passes(self, seconds: int, arrives: bool) -> None:
        """Perhaps what is late arrives first."""
        if arrives:
            self.world.let_arrive()
        self.world.pass_time(seconds)

    @rule(which=WHICH)
    def two_workers_at_once(self, which: int) -> None:
        if found := self.payment(which):
            pay = partial(dispatch.pay, self.row_of[found[1]])
            meanwhile("before-claim", pay, pay)

    @rule(which=st.integers(0, 7), again=st.booleans())
    def news(self, which: int, again: bool) -> None:
        """Any event, in any order, for the first time or the second."""
        if event := pick(self.world.events(), which):
            for _ in range(1 + again):
                self.hear(event)

    @rule(which=st.integers(0, 7), at_work=WHICH)
    def news_at_work(self, which: int, at_work: int) -> None:
        """It comes when a worker has written what it knows and not committed yet."""
        found, event = self.payment(at_work), pick(self.world.events(), which)
        if found and event and "payment_key" in event["data"]["object"]["metadata"]:
            pay = partial(dispatch.pay, self.row_of[found[1]])
            meanwhile("outcome-written", pay, partial(self.world.deliver, event))

    @rule(
        which=WHICH, status=st.sampled_from(["succeeded", "failed", "failed"]), told=st.booleans()
    )
    def bank_moves(self, which: int, status: str, told: bool) -> None:
        """A pending refund ends, or one that had succeeded comes back; any other stays."""
        refund = pick(self.world.provider.ledger(), which)
        if refund and (refund["status"], status) in BANK_MOVES:
            self.world.pass_time(1)
            self.world.provider.move_refund(refund["refund"], status)
            if told:
                self.hear(self.world.events()[-1])

    @rule(
        which=st.integers(0, 1),
        minor=st.sampled_from([1, 50_00, 150_00, 9_000_00]),
        told=st.booleans(),
    )
    def refunded_elsewhere(self, which: int, minor: int, told: bool) -> None:
        """Somebody presses the button on the provider's own pages."""
        payment = pick(sorted(self.tender_of), which)
        if payment is None:
            return
        answer = httpx.post(
            f"{self.world.provider.url}/v1/refunds",
            data={"payment_intent": payment, "amount": str(minor)},
            headers={"Authorization": "Bearer somebody"},
        )
        if answer.is_success:
            self.ledger.foreign.add(answer.json()["id"])
            if told:
                self.hear(self.world.events()[-1])

    @rule(which=WHICH, minor=st.sampled_from([1, 50_00, 150_00]))
    def key_is_taken(self, which: int, minor: int) -> None:
        """Another amount is refunded under the key of a payment that was never sent."""
        found = self.payment(which)
        if found is None or found[1].by_hand or found[1].state != "pending":
            return
        row = self.row_of[found[1]]
        if minor == found[1].amount_minor or self.payment_calls.stories[row].leases:
            return
        self.world.provider.clear_faults()
        task = PaymentTask.objects.select_related("tender", "operation").get(pk=row)
        try:
            self.ledger.foreign.add(made_elsewhere(self.world.provider, task, minor))
        except httpx.HTTPStatusError as refusal:
            note(f"    {refusal}")


def goes_wrong(sandbox: Sandbox, modes: list[str], match: str) -> None:
    """The next requests of this kind, in this order."""
    for mode in modes:
        sandbox.fault(mode, match=match, seconds=NOT_BY_ITSELF if mode == "late" else 0)
