"""What happens to payments: workers and their deaths, the provider's faults and news, time."""

from __future__ import annotations

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
from tests.stateful.desk import WHICH
from tests.stateful.story import Story, meanwhile, pick
from tests.stateful.workers import Paying, Phases, StoppedWorker

# The provider's faults: before the effect, after it, and what it may say instead of yes.
LOST = ["drop_before", "drop_after", "error_before", "error_after", "garbage_after", "late"]
SAYS_NO = ["decline", "insufficient_balance"]
SAYS_LATER = ["rate_limit", "unauthorized", "same_amount"]
FAULTS = st.sampled_from([*LOST, *SAYS_NO, *SAYS_LATER, "pending", "pending", "slow"])
LOOK_UP_FAULTS = st.sampled_from(
    ["drop_before", "drop_after", "error_before", "garbage_after", "rate_limit", "unauthorized"]
)
# Ours can be told from what others send, and only ours go wrong.
OURS = "metadata[payment_key]"
# Longer than any story: it arrives when the story says so.
NOT_BY_ITSELF = 24 * 60 * 60

BANK_MOVES = {("pending", "succeeded"), ("pending", "failed"), ("succeeded", "failed")}

SECOND, MINUTE, HOUR = 1, 60, 60 * 60
TIMES = st.sampled_from([SECOND, 5, 40, 20 * MINUTE, 3 * HOUR, 25 * HOUR])


class Wire(Story):
    """Between us and the provider."""

    @rule(which=WHICH)
    def work(self, which: int) -> None:
        """The queue's worker takes a payment as far as it goes."""
        if found := self.payment(which):
            dispatch.pay(self.row_of[found[1]])

    @rule(after=TIMES)
    def sweep(self, after: int) -> None:
        self.world.pass_time(after)
        sweep(threads=1)

    @rule(seconds=TIMES)
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    @rule(which=WHICH)
    def two_workers_at_once(self, which: int) -> None:
        if found := self.payment(which):
            pay = partial(dispatch.pay, self.row_of[found[1]])
            meanwhile("before-claim", pay, pay)

    @rule(which=WHICH, called=st.booleans())
    def worker_stops(self, which: int, called: bool) -> None:
        """Between claim and call, or between call and record; perhaps for ever."""
        if found := self.payment(which):
            self.stop(Paying(), self.row_of[found[1]], called=called)

    def stop(self, phases: Phases, row: int, *, called: bool) -> None:
        claim = phases.claim(row)
        if isinstance(claim, Claim):
            outcome = phases.call(claim) if called else None
            self.stopped.append(StoppedWorker(phases, claim, outcome))
            note(f"    claimed to {claim.purpose}, {outcome}")

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

    @rule(modes=st.lists(FAULTS, min_size=1, max_size=2))
    def next_payments_go_wrong(self, modes: list[str]) -> None:
        for mode in modes:
            seconds = NOT_BY_ITSELF if mode == "late" else 0
            self.world.provider.fault(mode, match=OURS, seconds=seconds)

    @rule(mode=LOOK_UP_FAULTS, times=st.integers(1, 2))
    def next_look_ups_go_wrong(self, mode: str, times: int) -> None:
        self.world.provider.fault(mode, match="GET /v1/refunds", times=times, seconds=0)

    @rule()
    def what_is_late_arrives(self) -> None:
        self.world.let_arrive()

    @rule(which=st.integers(0, 7), times=st.integers(1, 2))
    def news(self, which: int, times: int) -> None:
        """Any event, in any order, for the first time or again."""
        if event := pick(self.world.events(), which):
            for _ in range(times):
                self.hear(event)

    @rule(which=st.integers(0, 7), status=st.sampled_from(["succeeded", "failed", "failed"]))
    def bank_moves(self, which: int, status: str) -> None:
        """A pending refund ends, or one that had succeeded comes back; any other stays."""
        refund = pick(self.world.provider.ledger(), which)
        if refund and (refund["status"], status) in BANK_MOVES:
            self.world.provider.move_refund(refund["refund"], status)

    @rule(which=st.integers(0, 1), minor=st.sampled_from([1, 50_00, 150_00, 9_000_00]))
    def refunded_elsewhere(self, which: int, minor: int) -> None:
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
