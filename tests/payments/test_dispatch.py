"""A worker's step with a payment, against the real sandbox: what goes out and what is kept."""

from __future__ import annotations

import threading

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from payments import dispatch
from payments.models import ProviderHalt
from reconciliation.models import Mismatch
from reconciliation.sweeping import sweep
from returns.states import OperationState, TaskState
from tests import factories
from tests.payments.reading import (
    calls,
    figures,
    keys_sent,
    open_mismatch,
    operation_of,
    reserved_payment,
    stored,
    wait_until,
)
from tests.sandboxes import SandboxProvider
from tests.workers import at_once, let_pass, run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

# The ordinary way.


def test_a_payment_is_one_call_and_moves_the_money_from_held_to_gone(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    assert figures(task) == (10_000, 0, 0)
    assert dispatch.pay(task.pk) == 1
    paid = stored(task)
    assert (paid.state, paid.provider_refund) == (
        TaskState.SUCCEEDED,
        provider.ledger()[0]["refund"],
    )
    assert operation_of(task).state == OperationState.PAID
    assert figures(task) == (0, 10_000, 0)
    assert keys_sent(provider) == [str(task.wire_key)]
    assert calls(task) == [("send", "started", ""), ("send", "ended", "settled")]


def test_nothing_is_sent_inside_a_transaction(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    with pytest.raises(RuntimeError, match="inside a transaction"), transaction.atomic():
        dispatch.pay(task.pk)
    assert provider.refund_requests() == []
    assert stored(task).state == TaskState.PENDING


def test_a_payment_that_is_being_made_is_not_made_again(provider: SandboxProvider) -> None:
    """RC-02: the queue delivers the job again and again while the first delivery still runs."""
    task = reserved_payment(provider)
    provider.fault("slow", seconds=1)

    def first_delivery() -> None:
        dispatch.pay_operation(task.operation_id)
        connection.close()

    first = threading.Thread(target=first_delivery)
    first.start()
    wait_until(lambda: len(provider.refund_requests()) == 1)
    assert [dispatch.pay_operation(task.operation_id) for _ in range(3)] == [0, 0, 0]
    first.join()
    assert stored(task).state == TaskState.SUCCEEDED
    assert len(provider.refund_requests()) == 1


def test_workers_that_start_at_the_same_moment_make_one_call(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    made = at_once([lambda: dispatch.pay_operation(task.operation_id)] * 4)
    assert sorted(str(n) for n in made) == ["0", "0", "0", "1"]
    assert len(provider.refund_requests()) == 1
    assert calls(task) == [("send", "started", ""), ("send", "ended", "settled")]


# Refusals.


def test_a_refusal_of_the_first_attempt_gives_the_money_back_and_pays_under_a_new_key(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    provider.fault("decline")
    dispatch.pay(task.pk)
    assert stored(task).state == TaskState.DECLINED
    assert operation_of(task).state == OperationState.APPROVED
    assert figures(task) == (0, 0, 10_000)

    operation = factories.approved_by(factories.manager(), operation_of(task))
    second = operation.payments.exclude(pk=task.pk).get()
    dispatch.pay(second.pk)
    assert factories.fresh(operation).state == OperationState.PAID
    assert keys_sent(provider) == [str(task.wire_key), str(second.wire_key)]
    assert task.wire_key != second.wire_key


def test_a_refund_that_fails_under_way_is_a_definite_decline(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    provider.fault("pending")
    dispatch.pay(task.pk)
    held = stored(task)
    assert held.state == TaskState.ACCEPTED
    assert operation_of(task).state == OperationState.RESERVED, "accepted is not refunded"
    provider.move_refund(str(held.provider_refund), "failed")
    run_until_done(provider)
    assert stored(task).state == TaskState.DECLINED
    assert figures(task) == (0, 0, 10_000)


def test_one_tender_declined_keeps_what_the_other_has_paid(provider: SandboxProvider) -> None:
    order = factories.OrderFactory.create(
        tenders=[factories.card(6000, "first"), factories.card(4000, "second")]
    )
    operation = factories.reserved(order)
    provider.know_payments()
    first, second = operation.payments.order_by("pk")
    provider.fault("decline", match=f"POST /v1/refunds payment_intent={first.tender.payment}")
    dispatch.pay_operation(operation.pk)
    assert (stored(first).state, stored(second).state) == (TaskState.DECLINED, TaskState.SUCCEEDED)
    operation = factories.fresh(operation)
    assert (operation.state, operation.refunded_minor) == (OperationState.APPROVED, 4000)
    assert figures(first) == (0, 4000, 6000)

    factories.approved_by(factories.manager(), operation)
    run_until_done(provider)
    assert factories.fresh(operation).state == OperationState.PAID
    assert sorted(refund["amount"] for refund in provider.ledger()) == [4000, 6000]


# Credentials and rate limits.


def test_refused_credentials_stop_the_provider_until_then(provider: SandboxProvider) -> None:
    first = reserved_payment(provider)
    second = reserved_payment(provider)
    provider.fault("unauthorized")
    dispatch.pay(first.pk)
    assert stored(first).state == TaskState.PENDING
    halt = ProviderHalt.objects.get(provider="stripe")
    rests_seconds = (halt.until - timezone.now()).total_seconds()
    assert 0 < rests_seconds <= settings.PROVIDER_HALT_SECONDS
    assert "account_refused" in open_mismatch(first).detail

    let_pass(rests_seconds - 30)
    sweep(threads=1)
    dispatch.pay(second.pk)
    assert len(provider.refund_requests()) == 1, "nothing leaves before the halt is over"

    let_pass(31)
    sweep(threads=1)
    assert [stored(task).state for task in (first, second)] == [TaskState.SUCCEEDED] * 2
    assert keys_sent(provider).count(str(first.wire_key)) == 2
    assert Mismatch.objects.get(payment=first).status == Mismatch.Status.RESOLVED


def test_a_rate_limit_is_waited_out_with_the_same_key(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    provider.fault("rate_limit", seconds=60)
    dispatch.pay(task.pk)
    waiting = stored(task)
    assert (waiting.state, waiting.in_doubt) == (TaskState.PENDING, False)
    dispatch.pay(task.pk)
    let_pass(50)
    sweep(threads=1)
    assert len(provider.refund_requests()) == 1
    let_pass(11)
    sweep(threads=1)
    assert stored(task).state == TaskState.SUCCEEDED
    assert keys_sent(provider) == [str(task.wire_key)] * 2
