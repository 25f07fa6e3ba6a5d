"""Two and three actors on one order in every interleaving: one refund, and nothing lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from payments import recovery
from payments.models import PaymentTask
from returns.errors import RefundDeskError
from returns.models import OrderBalance
from returns.states import TASK_FINAL, TaskState
from tests.explorer.actors import Player
from tests.explorer.explore import explore, stopping_at
from tests.explorer.scene import PRICE_MINOR, Scene
from tests.oracle import assert_oracle
from tests.sandboxes import SandboxProvider
from tests.workers import let_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

# Between two transactions, and on either side of a call.
BETWEEN = ("before-lease-check", "after-call", "after-look-up", "payment-recorded")
# Claimed and not yet called; called and not yet recorded.
CALLING = ("before-lease-check", "after-call")
# Every stop multiplies: where there are many actors, only the most dangerous ones are kept.
CALLED = ("after-call",)
# Inside a transaction: read and not yet written, written and not yet committed.
CLAIMING = ("before-claim", "claimed")
RECORDING = ("outcome-written", "news-applied")
DECIDING = ("approval-written", "reserved")
LOST = "drop_after"
# A doubt is asked about soon; whatever takes more passes than this goes round in circles.
MOST_PASSES = 10
PASS_SECONDS = 60

# Who acts, what goes wrong, where they stop, and how many interleavings that has at least.
SCENES = [
    ("approver+approver", "", DECIDING, 6),
    ("approver+rival", "", DECIDING, 6),
    ("worker+worker", "", BETWEEN, 8),
    ("worker+worker", "", (*CLAIMING, *CALLED), 34),
    ("worker+worker", LOST, CALLING, 6),
    ("worker+sweep", "", CALLING, 12),
    ("worker+webhook", "", (*CLAIMING, *BETWEEN, *RECORDING), 7),
    ("worker+webhook", LOST, (*CLAIMING, *BETWEEN, *RECORDING), 7),
    ("worker+clock+sweep", "", CALLED, 35),
    ("worker+worker+webhook", "", CALLING, 16),
    ("worker+webhook+sweep", LOST, CALLED, 24),
    ("approver+approver+worker", "", (*DECIDING, *CALLED), 10),
]


@pytest.mark.parametrize(
    ("cast", "fault", "points", "at_least"),
    SCENES,
    ids=[f"{cast} {fault}".strip() for cast, fault, *_ in SCENES],
)
def test_every_interleaving_ends_right(
    cast: str,
    fault: str,
    points: Sequence[str],
    at_least: int,
    provider: SandboxProvider,
    monkeypatch: pytest.MonkeyPatch,
    tell: Callable[[str], None],
) -> None:
    scene = Scene(provider, monkeypatch, cast, fault)

    def check(players: Sequence[Player]) -> None:
        wrong = [p.error for p in players if p.error and not isinstance(p.error, RefundDeskError)]
        assert wrong == []
        provider.clear_faults()
        _finish()
        assert_oracle(provider)
        (task,) = PaymentTask.objects.all()
        assert task.state == TaskState.SUCCEEDED
        assert [refund["amount"] for refund in provider.ledger()] == [PRICE_MINOR]
        assert OrderBalance.objects.get().reserved_minor == 0

    with stopping_at(points):
        count = explore(scene.open, check)
    assert count >= at_least
    lost = ", the first answer lost" if fault else ""
    tell(f"explorer: {cast}{lost}: {count} interleavings, all right (stops: {', '.join(points)})")


def _finish() -> None:
    """The sweep of the money goes on until every payment has come to its end."""
    for _ in range(MOST_PASSES):
        recovery.sweep(threads=1)
        if not PaymentTask.objects.exclude(state__in=TASK_FINAL).exists():
            return
        let_pass(PASS_SECONDS)
