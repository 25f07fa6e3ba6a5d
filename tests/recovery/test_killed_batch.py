"""A hundred returns approved at once, and the worker killed in the middle (case SC-01)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from payments import batches
from payments.models import ApprovalBatch
from returns.models import RefundOperation
from returns.states import OperationState
from tests import factories
from tests.recovery.conftest import WorkerProcess
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

pytestmark = pytest.mark.django_db(transaction=True)

RETURNS, EACH_MINOR = 100, 20_00
CALLS = 37
SHIRT = factories.line(price_minor=EACH_MINOR)
StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def batch() -> ApprovalBatch:
    """A hundred inspected returns of 20.00 each, chosen by one manager."""
    chosen = [
        factories.inspected(factories.OrderFactory.create(lines=[SHIRT])) for _ in range(RETURNS)
    ]
    return batches.open_batch(
        token=uuid4(), by=factories.manager(), decisions=[decision(one) for one in chosen]
    )


def decision(operation: RefundOperation) -> batches.Decision:
    return batches.Decision(operation.operation_key, operation.version, EACH_MINOR)


def each_is_refunded_once(provider: SandboxProvider, batch: ApprovalBatch) -> None:
    ledger = provider.ledger()
    assert [refund["amount"] for refund in ledger] == [EACH_MINOR] * RETURNS
    assert len({refund["idempotency_key"] for refund in ledger}) == RETURNS
    assert len({refund["operation_key"] for refund in ledger}) == RETURNS
    assert sum(refund["amount"] for refund in ledger) == 2_000_00
    assert RefundOperation.objects.filter(state=OperationState.POSTED).count() == RETURNS
    counts = batches.counts(batch)
    assert (counts.paid, counts.unfinished, counts.refused) == (RETURNS, 0, 0)


def test_killed_after_37_calls_to_the_provider_the_rest_is_paid_once(
    start_worker: StartWorker,
    run_workers: Callable[..., None],
    batch: ApprovalBatch,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    provider.know_payments()
    start_worker("payments.tasks:approve_batch", batch.pk).result()
    let_pass(60)
    worker = start_worker("payments.recovery:sweep", 1, stop_at="after-call", time=CALLS)
    worker.reaches("after-call").kill()
    assert len(provider.ledger()) == CALLS
    counts = batches.counts(batch)
    assert (counts.paid, counts.on_its_way) == (CALLS - 1, RETURNS - CALLS + 1)
    let_pass(60)
    run_workers()
    each_is_refunded_once(provider, batch)


def test_killed_in_the_middle_of_approving_the_sweep_approves_the_rest(
    start_worker: StartWorker,
    run_workers: Callable[..., None],
    batch: ApprovalBatch,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    provider.know_payments()
    worker = start_worker(
        "payments.tasks:approve_batch", batch.pk, stop_at="reserved", time=RETURNS // 2
    )
    worker.reaches("reserved").kill()
    counts = batches.counts(batch)
    assert counts.waiting == RETURNS // 2 + 1, "what was not committed is undone"
    assert counts.on_its_way == RETURNS // 2 - 1
    run_workers()
    each_is_refunded_once(provider, batch)
