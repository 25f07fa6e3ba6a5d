"""What the database undoes is done again, once over, and nobody is called a second time.

The deadlocks are real: raw SQL takes the same locks the other way round, after the verb has begun
to wait. Whoever waits longer finds the circle first and gives way, and that is the verb.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import OperationalError, connection, transaction
from django_q.models import OrmQ

from config.fail_points import arm
from payments import dispatch, handover, settlement, webhooks
from payments.models import PaymentAttempt, PaymentTask, ProviderEvent
from reconciliation import dispatch as books
from reconciliation.models import ErpPosting
from reconciliation.posting import open_postings
from returns import closing, inspection, intake, ordering, retrying
from returns.models import Order, RefundOperation, RefusedAttempt
from returns.retrying import database_work_is_retried
from tests import factories
from tests.events import refund_event, signed
from tests.oracle import nothing_changes
from tests.races.staging import (
    alone,
    another_transaction,
    result_of,
    somebody_waits_for_a_lock,
    until,
)
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

pytestmark = pytest.mark.django_db(transaction=True)

Verb = Callable[[], object]
LEASE_SECONDS = 31

# What somebody else holds, and what they want next: the product takes them the other way round.
OPERATION = "SELECT FROM returns_refundoperation FOR UPDATE"
BALANCE = "SELECT FROM returns_orderbalance FOR UPDATE"
ORDER = "SELECT FROM returns_order FOR UPDATE"
PAYMENT = "SELECT FROM payments_paymenttask FOR UPDATE"
EVERY_CLAIM = "LOCK TABLE returns_claim IN SHARE MODE"
EVERY_PAYMENT = "LOCK TABLE payments_paymenttask IN ACCESS EXCLUSIVE MODE"


def deadlocked(verb: Verb, held: str = OPERATION, wanted: str = BALANCE) -> object:
    """What comes of a verb that waits for one lock while its own is waited for."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        with another_transaction() as execute:
            execute(held)
            running = pool.submit(alone, verb)
            until(lambda: running.done() or somebody_waits_for_a_lock())
            assert not running.done(), "did not wait"
            execute(wanted)  # and gets it: the verb has given way
        return result_of(running)


def undone(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Which functions have been undone and tried again."""
    said = [record for record in caplog.records if record.name == retrying.__name__]
    return [record.getMessage().split(":")[0] for record in said]


def payment_of(operation: RefundOperation) -> PaymentTask:
    return PaymentTask.objects.get(operation=operation)


def told(operation: RefundOperation, verb: str) -> int:
    """How often the timeline says this."""
    return operation.events.filter(verb=verb).count()


# Decisions about goods and money.


def test_the_danger_without_another_try_the_one_who_gives_way_gets_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "TRIES", 1)
    operation, by = factories.inspected(), factories.manager()
    with nothing_changes():
        error = deadlocked(partial(factories.approved_by, by, operation, 10_000))
    assert isinstance(error, OperationalError)
    assert "deadlock detected" in str(error)


def test_approve(caplog: pytest.LogCaptureFixture) -> None:
    operation, by = factories.inspected(), factories.manager()
    reserved = deadlocked(partial(factories.approved_by, by, operation, 10_000))
    assert undone(caplog) == ["approve"]
    assert isinstance(reserved, RefundOperation), reserved
    assert reserved.state == "reserved"
    assert (told(operation, "approve"), told(operation, "reserve")) == (1, 1)
    assert (PaymentTask.objects.count(), OrmQ.objects.count()) == (1, 1)
    assert not RefusedAttempt.objects.exists()


def test_take_in(caplog: pytest.LogCaptureFixture) -> None:
    order, by = factories.OrderFactory.create(), factories.desk()
    request = factories.request_for(order)
    taken = deadlocked(
        partial(intake.open_or_join, request=request, by=by), held=ORDER, wanted=EVERY_CLAIM
    )
    assert undone(caplog) == ["_take_in"]
    assert isinstance(taken, intake.Taken), taken
    assert taken.created
    assert RefundOperation.objects.get().messages.count() == 1


def test_inspect(caplog: pytest.LogCaptureFixture) -> None:
    operation, by = factories.received(), factories.desk()
    inspect = partial(
        inspection.inspect,
        operation_key=operation.operation_key,
        by=by,
        accepted=factories.units(operation),
        rejected=[],
    )
    deadlocked(inspect)
    assert undone(caplog) == ["inspect"]
    assert factories.fresh(operation).state == "inspected"
    assert told(operation, "inspect") == 1


@pytest.mark.parametrize(("verb", "state"), [("reject", "rejected"), ("withdraw", "cancelled")])
def test_close(caplog: pytest.LogCaptureFixture, verb: str, state: str) -> None:
    operation, by = factories.inspected(), factories.manager()
    close = partial(
        getattr(closing, verb), operation_key=operation.operation_key, by=by, reason="Worn."
    )
    deadlocked(close)
    assert undone(caplog) == [verb]
    assert factories.fresh(operation).state == state
    assert told(operation, verb) == 1


def test_import_an_order(caplog: pytest.LogCaptureFixture) -> None:
    facts, by = factories.order_facts(customer_name="A"), factories.integration()
    confirm = partial(ordering.confirm_order, number=facts.number, by=by)
    confirm(facts=facts)
    renamed = factories.order_facts(**{**vars(facts), "customer_name": "B"})
    deadlocked(partial(confirm, facts=renamed), held=ORDER, wanted=BALANCE)
    assert undone(caplog) == ["confirm_order"]
    assert Order.objects.get().customer_name == "B"


def test_hand_over(caplog: pytest.LogCaptureFixture) -> None:
    order = factories.OrderFactory.create(tenders=[factories.cash(10_000)])
    task, by = payment_of(factories.reserved(order)), factories.desk()
    deadlocked(partial(handover.start, task_id=task.pk, by=by))
    deadlocked(partial(handover.confirm, task_id=task.pk, by=by, reference="receipt 1"))
    assert undone(caplog) == ["start", "_end"]
    assert payment_of(task.operation).state == "succeeded"
    assert told(task.operation, "hand_over_started") == 1


# The outbound protocol: the database work is repeated, the call is not.


@pytest.fixture
def operation(provider: SandboxProvider) -> RefundOperation:
    reserved = factories.reserved()
    provider.know_payments()
    return reserved


def test_claim(
    caplog: pytest.LogCaptureFixture, operation: RefundOperation, provider: SandboxProvider
) -> None:
    task = payment_of(operation)
    assert deadlocked(partial(dispatch.pay, task.pk), held=PAYMENT, wanted=EVERY_PAYMENT) == 1
    assert undone(caplog) == ["claim"]
    assert len(provider.refund_requests()) == 1
    assert PaymentAttempt.objects.count() == 2
    assert payment_of(operation).lease == 2, "claimed once, ended once"


def test_record(
    caplog: pytest.LogCaptureFixture, operation: RefundOperation, provider: SandboxProvider
) -> None:
    assert deadlocked(partial(dispatch.pay, payment_of(operation).pk)) == 1
    assert undone(caplog) == ["record"]
    assert len(provider.refund_requests()) == len(provider.ledger()) == 1
    assert factories.fresh(operation).state == "paid"
    assert (told(operation, "paid"), told(operation, "settle")) == (1, 1)


def test_ask_again(caplog: pytest.LogCaptureFixture, operation: RefundOperation) -> None:
    task, by = payment_of(operation), factories.finance()
    deadlocked(partial(settlement.ask_again, task_id=task.pk, by=by))
    assert undone(caplog) == ["ask_again"]
    assert told(operation, "ask_again") == 1


def test_an_event(
    caplog: pytest.LogCaptureFixture, operation: RefundOperation, provider: SandboxProvider
) -> None:
    provider.fault("drop_after")
    dispatch.pay(payment_of(operation).pk)
    body, headers = signed(provider.events()[0]["event"])
    deadlocked(partial(webhooks.receive, name="stripe", body=body.encode(), headers=headers))
    assert undone(caplog) == ["_store_and_apply"]
    assert ProviderEvent.objects.get().standing == "applied"
    assert told(operation, "settle") == 1
    assert len(provider.refund_requests()) == 1


def test_a_parked_event(caplog: pytest.LogCaptureFixture, operation: RefundOperation) -> None:
    task = payment_of(operation)
    body, _ = signed(refund_event(task, "pending"))
    ProviderEvent.objects.create(
        provider="stripe",
        event_id=json.loads(body)["id"],
        kind="refund.updated",
        occurred_at=task.created_at,
        body=body,
        live_mode=False,
        standing="parked",
        received_at=task.created_at,
        next_look_at=task.created_at,
    )
    assert deadlocked(webhooks.apply_parked) == 1
    assert undone(caplog) == ["_apply_waiting"]
    assert ProviderEvent.objects.get().standing == "applied"


def test_record_a_posting(
    caplog: pytest.LogCaptureFixture, operation: RefundOperation, erp: SandboxErp
) -> None:
    factories.pay(operation)
    open_postings()
    posting = ErpPosting.objects.get()
    deadlocked(partial(books.post, posting.pk))
    assert undone(caplog) == ["record"]
    assert factories.fresh(operation).state == "posted"
    assert [entry["state"] for entry in erp.entries()] == ["posted"]
    creating = [seen for seen in erp.requests() if seen["method"] == "POST"]
    assert len(creating) == 2, "one draft, posted once"


# Serialization.


def strictly(verb: Verb) -> object:
    """The verb on a connection where every transaction keeps the picture it began with."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    return verb()


def overtaken(verb: Verb) -> object:
    """What comes of a verb that waits for a row which then is another one than it began with."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        with another_transaction() as execute:
            execute("UPDATE returns_orderbalance SET captured_minor = captured_minor")
            running = pool.submit(alone, partial(strictly, verb))
            until(lambda: running.done() or somebody_waits_for_a_lock())
            assert not running.done(), "did not wait"
        return result_of(running)


def test_the_danger_of_a_changed_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "TRIES", 1)
    operation, by = factories.inspected(), factories.manager()
    error = overtaken(partial(factories.approved_by, by, operation, 10_000))
    assert isinstance(error, OperationalError)
    assert "could not serialize access" in str(error)


def test_approve_on_a_changed_row(caplog: pytest.LogCaptureFixture) -> None:
    operation, by = factories.inspected(), factories.manager()
    reserved = overtaken(partial(factories.approved_by, by, operation, 10_000))
    assert undone(caplog) == ["approve"]
    assert isinstance(reserved, RefundOperation), reserved
    assert (PaymentTask.objects.count(), OrmQ.objects.count()) == (1, 1)


def test_record_on_a_changed_row(
    caplog: pytest.LogCaptureFixture, operation: RefundOperation, provider: SandboxProvider
) -> None:
    assert overtaken(partial(dispatch.pay, payment_of(operation).pk)) == 1
    assert undone(caplog) == ["record"]
    assert len(provider.refund_requests()) == 1
    assert told(operation, "settle") == 1


# What is not repeated.


def fails(sqlstate: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}'; END $$")


@pytest.mark.parametrize(
    ("sqlstate", "tries"), [("40P01", 5), ("40001", 5), ("55P03", 1), ("57014", 1)]
)
def test_tries_are_counted_and_only_what_is_undone_for_certain_is_tried_again(
    sqlstate: str, tries: int
) -> None:
    tried: list[str] = []

    @database_work_is_retried
    def work() -> None:
        tried.append(sqlstate)
        fails(sqlstate)

    with pytest.raises(OperationalError):
        work()
    assert len(tried) == tries


def test_inside_another_transaction_it_runs_once() -> None:
    tried: list[str] = []

    @database_work_is_retried
    def work() -> None:
        tried.append("once")
        fails("40P01")

    with pytest.raises(OperationalError), transaction.atomic():
        work()
    assert tried == ["once"]


def test_a_connection_lost_while_a_paid_refund_is_recorded_leaves_it_to_the_look_up(
    caplog: pytest.LogCaptureFixture,
    operation: RefundOperation,
    provider: SandboxProvider,
    run_workers: Callable[..., None],
) -> None:
    def lose_connection() -> None:
        disarm()
        own = connection.connection.info.backend_pid
        with another_transaction() as execute:
            execute(f"SELECT pg_terminate_backend({own}, 5000)")

    disarm = arm("money-moved", lose_connection)
    with ThreadPoolExecutor(max_workers=1) as pool:
        error = result_of(pool.submit(alone, partial(dispatch.pay, payment_of(operation).pk)))
    assert isinstance(error, OperationalError), error
    assert undone(caplog) == [], "nobody knows what became of the transaction"
    assert payment_of(operation).state == "sending"
    assert len(provider.ledger()) == 1

    let_pass(LEASE_SECONDS)
    run_workers()
    assert factories.fresh(operation).state == "posted"
    assert len(provider.refund_requests()) == 1
    assert told(operation, "settle") == 1
