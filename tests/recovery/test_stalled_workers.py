"""A worker that is stopped and wakes after its lease: it sends nothing and writes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from payments import dispatch, webhooks
from payments.models import OutboundRow, PaymentAttempt, PaymentTask
from reconciliation.models import ErpPosting, PostingAttempt
from reconciliation.posting import open_postings
from reconciliation.tasks import post_operations
from returns.states import TaskState
from tests import factories
from tests.events import signed
from tests.recovery.conftest import WorkerProcess, wait_until
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

StartWorker = Callable[..., WorkerProcess]

LEASE_SECONDS = 31
DAY_SECONDS = 24 * 60 * 60
PAY = "payments.tasks:pay_operation"
POST = "reconciliation.tasks:post_operations"
# A worker with this timing may start its call for one second after its claim.
HASTE = {"lease_seconds": 16, "call_seconds": 12, "margin_seconds": 3}
HASTE_SECONDS = 1


@pytest.fixture
def task(provider: SandboxProvider, transactional_db: None) -> PaymentTask:
    """A refund of half the order, so that the provider would not refuse a second one."""
    order = factories.OrderFactory.create(lines=[factories.line(quantity=2)])
    operation = factories.reserved(order)
    provider.know_payments()
    return PaymentTask.objects.get(operation=operation)


def stored(task: PaymentTask) -> PaymentTask:
    return PaymentTask.objects.get(pk=task.pk)


def frozen_past_its_lease(
    start_worker: StartWorker, task: PaymentTask, *, checks_its_lease: bool = True
) -> WorkerProcess:
    """A worker stopped between claim and call, until its time for calling is over."""
    point = "before-lease-check" if checks_its_lease else "before-call"
    worker = start_worker(
        PAY,
        task.operation_id,
        stop_at=point,
        freezes=True,
        checks_its_lease=checks_its_lease,
        OUTBOUND_TIMING=HASTE,
    )
    worker.reaches(point).is_frozen()
    time_for_calling_is_over()
    return worker


def time_for_calling_is_over() -> None:
    """Returns when a worker with that timing, which has claimed by now, may no longer call."""
    over_at = time.clock_gettime(time.CLOCK_BOOTTIME) + HASTE_SECONDS
    wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > over_at)


def paid_by_another(task: PaymentTask) -> None:
    """The lease is over; another worker asks, sees nothing and sends."""
    let_pass(LEASE_SECONDS)
    dispatch.pay(task.pk)
    assert stored(task).state == TaskState.SUCCEEDED


def attempts(task: PaymentTask) -> list[tuple[str, str]]:
    rows = PaymentAttempt.objects.filter(row=task).order_by("pk")
    return list(rows.values_list("purpose", "step"))


def test_a_worker_that_wakes_after_its_lease_sends_nothing_and_writes_nothing(
    start_worker: StartWorker, task: PaymentTask, provider: SandboxProvider
) -> None:
    sleeper = frozen_past_its_lease(start_worker, task)
    paid_by_another(task)
    before = stored(task), attempts(task), provider.requests()

    assert sleeper.thaw().result() == 0
    after = stored(task), attempts(task), provider.requests()
    assert vars_of(after[0]) == vars_of(before[0])
    assert after[1:] == before[1:]
    assert attempts(task) == [
        ("send", "started"),  # by the sleeper, and never ended
        ("ask", "started"),
        ("ask", "ended"),
        ("send", "started"),
        ("send", "ended"),
    ]


def test_a_worker_that_wakes_after_its_lease_leaves_the_payment_to_the_sweep(
    start_worker: StartWorker,
    run_workers: Callable[..., None],
    task: PaymentTask,
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    sleeper = frozen_past_its_lease(start_worker, task)
    assert sleeper.thaw().result() == 0
    assert provider.refund_requests() == []
    assert stored(task).state == TaskState.SENDING
    let_pass(LEASE_SECONDS)
    run_workers()
    assert stored(task).state == TaskState.SUCCEEDED


def test_a_worker_that_wakes_when_its_key_is_forgotten_and_another_has_paid_sends_nothing(
    start_worker: StartWorker, task: PaymentTask, provider: SandboxProvider
) -> None:
    """Stopped between claim and call for a day: the provider would take its key for a new one."""
    sleeper = frozen_past_its_lease(start_worker, task)
    paid_by_another(task)
    provider.advance_clock(DAY_SECONDS + 1)
    let_pass(DAY_SECONDS + 1)
    before = stored(task), attempts(task), provider.requests()

    assert sleeper.thaw().result() == 0
    after = stored(task), attempts(task), provider.requests()
    assert vars_of(after[0]) == vars_of(before[0])
    assert after[1:] == before[1:]
    assert len(provider.ledger()) == len(provider.refund_requests()) == 1


def test_the_danger_without_the_check_a_late_worker_pays_a_second_time(
    start_worker: StartWorker, task: PaymentTask, provider: SandboxProvider
) -> None:
    sleeper = frozen_past_its_lease(start_worker, task, checks_its_lease=False)
    paid_by_another(task)
    provider.advance_clock(DAY_SECONDS + 1)  # the machine slept for a day: the key is forgotten
    sleeper.thaw().result()
    paid, again = provider.ledger()
    assert paid["idempotency_key"] == again["idempotency_key"] == str(task.wire_key)
    provider.move_refund(again["refund"], "failed")  # put right by hand


def test_a_worker_overtaken_during_its_call_writes_nothing_not_even_good_news(
    start_worker: StartWorker, task: PaymentTask, provider: SandboxProvider
) -> None:
    slow = start_worker(PAY, task.operation_id, stop_at="after-call").reaches("after-call")
    let_pass(LEASE_SECONDS)
    dispatch.pay(task.pk)
    known = stored(task)
    assert known.state == TaskState.SUCCEEDED, "found by asking"
    assert slow.go_on().result() == 0
    assert vars_of(stored(task)) == vars_of(known)
    assert ("send", "ended") not in attempts(task)
    assert len(provider.refund_requests()) == 1


def test_a_worker_overtaken_by_the_providers_own_news_writes_nothing(
    start_worker: StartWorker, task: PaymentTask, provider: SandboxProvider
) -> None:
    slow = start_worker(PAY, task.operation_id, stop_at="after-call").reaches("after-call")
    body, headers = signed(provider.events()[0]["event"])
    webhooks.receive(name="stripe", body=body.encode(), headers=headers)
    known = stored(task)
    assert known.state == TaskState.SUCCEEDED
    assert slow.go_on().result() == 0
    assert vars_of(stored(task)) == vars_of(known)
    assert ("send", "ended") not in attempts(task)


def test_a_posting_worker_overtaken_during_its_call_writes_nothing(
    start_worker: StartWorker, task: PaymentTask, erp: SandboxErp
) -> None:
    posting = opened_posting(task)
    slow = start_worker(POST, [task.operation_id], stop_at="after-post").reaches("after-post")
    let_pass(LEASE_SECONDS)
    post_operations([task.operation_id])
    known = ErpPosting.objects.get(pk=posting.pk)
    assert known.state == TaskState.SUCCEEDED, "found by asking"
    written = PostingAttempt.objects.count()
    slow.go_on().result()
    assert vars_of(ErpPosting.objects.get(pk=posting.pk)) == vars_of(known)
    assert PostingAttempt.objects.count() == written
    assert [entry["state"] for entry in erp.entries()] == ["posted"]


def test_a_posting_worker_that_wakes_after_its_lease_calls_nobody(
    start_worker: StartWorker, task: PaymentTask, erp: SandboxErp
) -> None:
    opened_posting(task)
    point = "before-lease-check"
    sleeper = start_worker(
        POST, [task.operation_id], stop_at=point, freezes=True, OUTBOUND_TIMING=HASTE
    )
    sleeper.reaches(point).is_frozen()
    time_for_calling_is_over()
    assert sleeper.thaw().result() == 0
    assert erp.requests() == []
    let_pass(LEASE_SECONDS)
    post_operations([task.operation_id])
    assert [entry["state"] for entry in erp.entries()] == ["posted"]


def opened_posting(task: PaymentTask) -> ErpPosting:
    dispatch.pay(task.pk)
    open_postings()
    return ErpPosting.objects.get(operation=task.operation_id)


def vars_of(row: OutboundRow) -> dict[str, object]:
    return {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}
