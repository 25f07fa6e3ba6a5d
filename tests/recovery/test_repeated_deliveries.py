"""The same queue message in several processes, and a payment that kills whoever touches it."""

from __future__ import annotations

from collections.abc import Callable

from payments.models import PaymentAttempt, PaymentTask
from payments.protocol import DEATHS_BEFORE_PARKING
from payments.settlement import ask_again
from reconciliation.models import Mismatch
from reconciliation.sweeping import sweep
from returns.models import OrderBalance
from returns.states import OperationState, TaskState
from tests import factories
from tests.recovery.conftest import WorkerProcess
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

StartWorker = Callable[..., WorkerProcess]

LEASE_SECONDS = 31
PAY = "payments.tasks:pay_operation"


def test_a_message_delivered_to_three_processes_at_once_makes_one_request(
    start_worker: StartWorker, provider: SandboxProvider
) -> None:
    operation = factories.reserved()
    provider.know_payments()
    workers = [start_worker(PAY, operation.pk, stop_at="before-claim") for _ in range(3)]
    for worker in workers:
        # The danger: each has read the payment, found it due and means to send.
        worker.reaches("before-claim")
    for worker in workers:
        worker.go_on()
    assert sorted(worker.result() for worker in workers) == [0, 0, 1]
    assert len(provider.refund_requests()) == 1
    assert PaymentAttempt.objects.filter(step="started").count() == 1
    assert factories.fresh(operation).state == OperationState.PAID


def test_a_posting_delivered_to_three_processes_at_once_makes_one_entry(
    start_worker: StartWorker, provider: SandboxProvider, erp: SandboxErp
) -> None:
    operation = factories.reserved()
    provider.know_payments()
    factories.pay(operation)
    erp.unique_reference(False)
    start_worker("reconciliation.posting:open_postings").result()
    post = "reconciliation.tasks:post_operations"
    workers = [start_worker(post, [operation.pk], stop_at="before-claim") for _ in range(3)]
    for worker in workers:
        worker.reaches("before-claim")
    for worker in workers:
        worker.go_on()
    for worker in workers:
        worker.result()
    assert [entry["state"] for entry in erp.entries()] == ["posted"]
    assert factories.fresh(operation).state == OperationState.POSTED


def test_a_payment_that_kills_its_worker_three_times_is_parked_and_the_others_go_on(
    start_worker: StartWorker, provider: SandboxProvider, erp: SandboxErp
) -> None:
    poison = PaymentTask.objects.get(operation=factories.reserved())
    other = PaymentTask.objects.get(operation=factories.reserved())
    provider.know_payments()
    for point in ("before-call", *["before-look-up"] * (DEATHS_BEFORE_PARKING - 1)):
        start_worker(PAY, poison.operation_id, stop_at=point).reaches(point).kill()
        let_pass(LEASE_SECONDS)
    assert PaymentAttempt.objects.filter(row=poison, step="started").count() == 3

    sweep(threads=1)
    parked = PaymentTask.objects.get(pk=poison.pk)
    assert (parked.state, parked.attention) == (TaskState.STUCK, "kills_its_worker")
    assert parked.in_doubt, "a dead worker may have sent"
    assert PaymentTask.objects.get(pk=other.pk).state == TaskState.SUCCEEDED
    mismatch = Mismatch.objects.get(payment=poison)
    assert (mismatch.kind, mismatch.status) == (Mismatch.Kind.STUCK_PAYMENT, "open")
    balance = OrderBalance.objects.get(order=poison.operation.order_id)
    assert (balance.reserved_minor, balance.refunded_minor) == (10_000, 0)

    # The cause is mended and a person asks again: the look-up sees nothing, so it is sent.
    ask_again(task_id=poison.pk, by=factories.finance())
    sweep(threads=1)
    assert PaymentTask.objects.get(pk=poison.pk).state == TaskState.SUCCEEDED
    assert len(provider.ledger()) == 2
    assert Mismatch.objects.get(pk=mismatch.pk).status == Mismatch.Status.RESOLVED


def test_an_answer_starts_the_count_of_deaths_again(
    start_worker: StartWorker, provider: SandboxProvider
) -> None:
    task = PaymentTask.objects.get(operation=factories.reserved())
    provider.know_payments()
    for point in ("before-call", "before-look-up"):
        start_worker(PAY, task.operation_id, stop_at=point).reaches(point).kill()
        let_pass(LEASE_SECONDS)
    provider.fault("error_before", match="GET /v1/refunds")
    sweep(threads=1)
    assert PaymentTask.objects.get(pk=task.pk).deaths == 0
