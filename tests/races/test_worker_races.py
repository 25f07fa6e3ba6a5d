"""A payment job that is delivered again while it still runs reaches the provider once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from django.db import connection

from payments import outbound, tasks
from payments.models import PaymentAttempt, PaymentTask
from payments.protocol import Decision, Step
from reconciliation import tasks as books
from reconciliation.posting import open_postings
from reconciliation.sweeping import sweep
from returns.models import RefundOperation
from tests import factories
from tests.races.staging import PATIENCE_SECONDS, until
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import at_once, let_pass

pytestmark = pytest.mark.django_db(transaction=True)

# Long enough for two more deliveries to come and go while the provider keeps the first waiting.
HELD_SECONDS = 3


@pytest.fixture
def operation(provider: SandboxProvider) -> RefundOperation:
    reserved = factories.reserved()
    provider.know_payments()
    return reserved


@contextmanager
def held_open(provider: SandboxProvider, operation: RefundOperation) -> Iterator[Future[int]]:
    """The first worker, while the provider has its request and does not answer yet."""

    def work() -> int:
        try:
            return tasks.pay_operation(operation.pk)
        finally:
            connection.close()

    provider.fault("slow", seconds=HELD_SECONDS)
    with ThreadPoolExecutor(max_workers=1) as pool:
        first = pool.submit(work)
        until(lambda: len(provider.refund_requests()) == 1)
        yield first
        assert not first.done(), "the first delivery ended too early for this test to mean anything"
        first.result(PATIENCE_SECONDS)


def test_second_and_third_deliveries_find_the_job_taken_and_call_nobody(
    provider: SandboxProvider, operation: RefundOperation
) -> None:
    with held_open(provider, operation):
        assert [tasks.pay_operation(operation.pk) for _ in range(2)] == [0, 0]
        assert operation.payments.get().state == "sending"
        assert factories.fresh(operation).order.balance.remaining_minor == 0
    assert len(provider.refund_requests()) == 1
    assert len(provider.ledger()) == 1
    assert factories.fresh(operation).state == "paid"
    assert [attempt.step for attempt in PaymentAttempt.objects.order_by("pk")] == [
        "started",
        "ended",
    ]


def test_the_sweep_leaves_a_payment_alone_that_a_worker_is_making(
    provider: SandboxProvider, erp: SandboxErp, operation: RefundOperation
) -> None:
    let_pass(60)  # long due when the worker takes it
    with held_open(provider, operation):
        assert sweep(threads=1)["calls"] == 0
    assert len(provider.refund_requests()) == 1


def test_without_the_claim_every_delivery_would_send(
    provider: SandboxProvider, operation: RefundOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The danger: then only the provider's memory of the key stands before a second refund."""
    monkeypatch.setattr(outbound, "decide", lambda *_: Decision(Step.SEND))
    monkeypatch.setattr(outbound, "until_nothing_is_due", lambda step: int(step()))
    with held_open(provider, operation):
        assert tasks.pay_operation(operation.pk) == 1
        assert len(provider.refund_requests()) == 2
    task = PaymentTask.objects.get()
    keys = [seen["idempotency_key"] for seen in provider.refund_requests()]
    assert keys == [str(task.wire_key)] * 2
    # The first worker found its lease taken and wrote nothing; the money stays reserved.
    assert (task.state, factories.fresh(operation).state) == ("unknown", "reserved")


def test_four_deliveries_at_the_same_moment_make_one_call(
    provider: SandboxProvider, operation: RefundOperation
) -> None:
    results = at_once([partial(tasks.pay_operation, operation.pk)] * 4)
    assert sorted(int(calls) for calls in results if isinstance(calls, int)) == [0, 0, 0, 1]
    assert len(provider.refund_requests()) == 1


def test_a_credit_that_is_delivered_four_times_is_posted_once(
    erp: SandboxErp, provider: SandboxProvider, operation: RefundOperation
) -> None:
    factories.pay(operation)
    open_postings()
    calls: list[Callable[[], int]] = [partial(books.post_operations, [operation.pk])] * 4
    results = at_once(calls)
    assert not [result for result in results if isinstance(result, Exception)]
    assert [entry["state"] for entry in erp.entries()] == ["posted"]
    assert factories.fresh(operation).state == "posted"


def test_postings_are_opened_once_by_two_sweeps(
    erp: SandboxErp, provider: SandboxProvider, operation: RefundOperation
) -> None:
    factories.pay(operation)
    results = at_once([open_postings] * 4)
    assert not [result for result in results if isinstance(result, Exception)]
    factories.post(operation)
    assert len(erp.entries()) == 1
