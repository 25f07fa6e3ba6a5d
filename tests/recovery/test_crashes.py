"""Kill -9 at every point between two phases: nothing is paid or posted twice, nothing is lost.

Each worker is a real process on the tests' database; after its death the sweep has to find what it
left behind, and the oracle is asked at the end of every test.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django_q.models import OrmQ

from payments.models import PaymentAttempt, PaymentTask, ProviderEvent
from reconciliation.models import ErpPosting, Mismatch
from reconciliation.posting import open_postings
from reconciliation.sweeping import sweep
from returns.models import OrderBalance, RefundOperation
from returns.states import OperationState, TaskState
from tests import factories
from tests.events import signed
from tests.oracle import nothing_changes
from tests.recovery.conftest import WorkerProcess, wait_until
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

StartWorker = Callable[..., WorkerProcess]
RunWorkers = Callable[..., None]

LEASE_SECONDS = 31
DAY_SECONDS = 24 * 60 * 60
PAY = "payments.tasks:pay_operation"
POST = "reconciliation.tasks:post_operations"


def payment_of(operation: RefundOperation) -> PaymentTask:
    return PaymentTask.objects.get(operation=operation)


def posting_of(operation: RefundOperation) -> ErpPosting:
    return ErpPosting.objects.get(operation=operation)


def figures(operation: RefundOperation) -> tuple[int, int]:
    """Reserved and refunded, minor units."""
    balance = OrderBalance.objects.get(order=operation.order_id)
    return balance.reserved_minor, balance.refunded_minor


def assert_done_once(
    operation: RefundOperation, provider: SandboxProvider, erp: SandboxErp
) -> None:
    """Posted, and one refund and one posted entry in the books of the other side."""
    assert factories.fresh(operation).state == OperationState.POSTED
    assert figures(operation) == (0, operation.amount_minor)
    refunds = [(refund["amount"], refund["idempotency_key"]) for refund in provider.ledger()]
    assert refunds == [(operation.amount_minor, str(payment_of(operation).wire_key))]
    assert [entry["state"] for entry in erp.entries()] == ["posted"]
    assert not Mismatch.objects.filter(status=Mismatch.Status.OPEN).exists()


def known(operation: RefundOperation, provider: SandboxProvider) -> RefundOperation:
    provider.know_payments()
    return operation


# Approving.


def test_killed_before_the_approval_commits_nothing_has_changed(
    start_worker: StartWorker, provider: SandboxProvider
) -> None:
    operation = factories.inspected()
    factories.manager()
    with nothing_changes():
        worker = start_worker(
            "approve", str(operation.operation_key), "manager", 10_000, stop_at="reserved"
        )
        worker.reaches("reserved").kill()
    assert OrmQ.objects.count() == 0
    factories.approved_by(factories.manager(), operation)


def test_killed_after_the_approval_the_sweep_finds_the_payment_without_its_queue_message(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = factories.inspected()
    factories.manager()
    worker = start_worker("approve", str(operation.operation_key), "manager", 10_000)
    assert worker.result() == OperationState.RESERVED
    worker.kill()
    operation = factories.fresh(operation)
    assert OrmQ.objects.count() == 1
    OrmQ.objects.all().delete()

    run_workers()
    assert_done_once(operation, provider, erp)


# Paying (UO-02).


@pytest.mark.parametrize("point", ["before-claim", "claimed"])
def test_killed_before_the_claim_commits_the_payment_is_as_it_was(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
    point: str,
) -> None:
    operation = known(factories.reserved(), provider)
    with nothing_changes():
        start_worker(PAY, operation.pk, stop_at=point).reaches(point).kill()
    run_workers()
    assert_done_once(operation, provider, erp)
    assert payment_of(operation).deaths == 0


def test_killed_after_the_claim_it_is_sent_by_another_with_the_same_key(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = known(factories.reserved(), provider)
    start_worker(PAY, operation.pk, stop_at="before-call").reaches("before-call").kill()
    assert payment_of(operation).state == TaskState.SENDING
    assert figures(operation) == (10_000, 0), "the money stays held"
    assert sweep(threads=1)["calls"] == 0, "nobody takes it over while the lease stands"

    let_pass(LEASE_SECONDS)
    run_workers()
    assert_done_once(operation, provider, erp)
    ended = PaymentAttempt.objects.filter(step="ended").order_by("pk")
    assert list(ended.values_list("purpose", flat=True)) == ["ask", "send"]
    assert len(provider.refund_requests()) == 1


@pytest.mark.parametrize("point", ["after-call", "outcome-written", "money-moved"])
def test_killed_after_the_provider_has_paid_the_refund_is_found_not_repeated(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
    point: str,
) -> None:
    operation = known(factories.reserved(), provider)
    start_worker(PAY, operation.pk, stop_at=point).reaches(point).kill()
    assert payment_of(operation).state == TaskState.SENDING
    assert figures(operation) == (10_000, 0)
    assert len(provider.ledger()) == 1

    let_pass(LEASE_SECONDS)
    run_workers()
    assert_done_once(operation, provider, erp)
    assert len(provider.refund_requests()) == 1


def test_killed_while_the_provider_takes_its_time_the_refund_is_found_not_repeated(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = known(factories.reserved(), provider)
    provider.fault("slow", seconds=120)
    worker = start_worker(PAY, operation.pk)
    wait_until(lambda: len(provider.refund_requests()) == 1)
    worker.kill()
    assert payment_of(operation).state == TaskState.SENDING

    let_pass(LEASE_SECONDS)
    run_workers()
    assert_done_once(operation, provider, erp)


def test_killed_in_the_look_up_another_looks(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = known(factories.reserved(), provider)
    provider.fault("drop_after")
    start_worker(PAY, operation.pk).result()
    let_pass(10)
    start_worker(PAY, operation.pk, stop_at="before-look-up").reaches("before-look-up").kill()
    assert payment_of(operation).state == TaskState.UNKNOWN
    let_pass(LEASE_SECONDS)
    run_workers()
    assert_done_once(operation, provider, erp)


# Found too late: the provider has forgotten the key by then.


def a_day_later(provider: SandboxProvider) -> None:
    provider.advance_clock(DAY_SECONDS + 1)
    let_pass(DAY_SECONDS + 1)


def test_killed_after_the_provider_has_paid_a_day_later_it_is_found_and_never_sent_again(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = known(factories.reserved(), provider)
    start_worker(PAY, operation.pk, stop_at="after-call").reaches("after-call").kill()
    a_day_later(provider)
    run_workers()
    assert_done_once(operation, provider, erp)
    assert len(provider.refund_requests()) == 1


def test_killed_before_the_call_a_day_later_nothing_is_sent_and_a_person_is_asked(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
) -> None:
    operation = known(factories.reserved(), provider)
    start_worker(PAY, operation.pk, stop_at="before-call").reaches("before-call").kill()
    a_day_later(provider)
    run_workers()
    assert provider.refund_requests() == []
    task = payment_of(operation)
    assert (task.state, task.attention) == (TaskState.STUCK, "window_closed")
    mismatch = Mismatch.objects.get(payment=task)
    assert (mismatch.kind, mismatch.status) == (Mismatch.Kind.STUCK_PAYMENT, "open")
    assert figures(operation) == (10_000, 0), "held until a person knows better"


# Posting.


def test_killed_after_the_payment_the_sweep_opens_the_posting(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = known(factories.reserved(), provider)
    worker = start_worker(PAY, operation.pk)
    worker.result()
    worker.kill()
    assert factories.fresh(operation).state == OperationState.PAID
    assert not ErpPosting.objects.exists()
    run_workers()
    assert_done_once(operation, provider, erp)


def test_killed_while_postings_are_opened_none_is_half_there(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = factories.pay(known(factories.reserved(), provider))
    with nothing_changes():
        point = "postings-opened"
        start_worker("reconciliation.posting:open_postings", stop_at=point).reaches(point).kill()
    run_workers()
    assert_done_once(operation, provider, erp)


def test_an_opened_posting_without_its_queue_message_is_found_by_the_sweep(
    run_workers: RunWorkers, provider: SandboxProvider, erp: SandboxErp
) -> None:
    operation = factories.pay(known(factories.reserved(), provider))
    open_postings()
    OrmQ.objects.all().delete()
    run_workers()
    assert_done_once(operation, provider, erp)


@pytest.mark.parametrize("unique", [True, False], ids=["unique", "not-unique"])
@pytest.mark.parametrize(
    ("point", "left_behind"),
    [
        ("before-draft", []),
        ("after-draft", ["draft"]),
        ("before-post", ["draft"]),
        ("after-post", ["posted"]),
    ],
)
def test_killed_between_the_steps_of_a_posting_it_is_resumed(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
    point: str,
    left_behind: list[str],
    unique: bool,
) -> None:
    operation = factories.pay(known(factories.reserved(), provider))
    erp.unique_reference(unique)
    open_postings()
    start_worker(POST, [operation.pk], stop_at=point).reaches(point).kill()
    assert [entry["state"] for entry in erp.entries()] == left_behind
    assert posting_of(operation).state != TaskState.SUCCEEDED

    let_pass(LEASE_SECONDS)
    run_workers()
    assert_done_once(operation, provider, erp)


def test_killed_while_the_posting_is_recorded_the_entry_is_found(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    operation = factories.pay(known(factories.reserved(), provider))
    open_postings()
    worker = start_worker(POST, [operation.pk], stop_at="after-post").reaches("after-post")
    worker.kill()
    let_pass(LEASE_SECONDS)
    again = start_worker(POST, [operation.pk], stop_at="outcome-written").reaches("outcome-written")
    again.kill()
    assert posting_of(operation).state != TaskState.SUCCEEDED
    let_pass(LEASE_SECONDS)
    run_workers()
    assert_done_once(operation, provider, erp)


# Events (WH-02).


@pytest.mark.parametrize("point", ["news-applied", "event-applied"])
def test_killed_while_an_event_is_applied_its_next_delivery_does_the_work(
    start_worker: StartWorker,
    run_workers: RunWorkers,
    provider: SandboxProvider,
    erp: SandboxErp,
    point: str,
) -> None:
    operation = known(factories.reserved(), provider)
    provider.fault("drop_after")
    start_worker(PAY, operation.pk).result()
    body, headers = signed(provider.events()[0]["event"])
    with nothing_changes():
        start_worker("receive", body, headers, stop_at=point).reaches(point).kill()
    assert not ProviderEvent.objects.exists()

    assert start_worker("receive", body, headers).result() == ProviderEvent.Standing.APPLIED
    assert payment_of(operation).state == TaskState.SUCCEEDED
    run_workers()
    assert_done_once(operation, provider, erp)
