"""Webhooks: believed only when signed, stored once, and never moving a payment backwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from payments import dispatch, outbound, webhooks
from payments.capabilities import capabilities_of
from payments.dispatch import order_of
from payments.models import PaymentAttempt, PaymentTask, ProviderEvent
from payments.providers import provider as payment_provider
from payments.settlement import ask_again, record
from reconciliation import mismatches
from reconciliation.models import Mismatch
from reconciliation.sweeping import sweep
from returns.identity import wire_key
from returns.models import OperationEvent, OrderBalance, RefundOperation
from returns.states import OperationState, TaskState
from tests import factories
from tests.events import HAPPENED_AT, refund_event, signed
from tests.oracle import nothing_changes
from tests.sandboxes import Json, SandboxErp, SandboxProvider
from tests.workers import at_once, let_pass, run_until_done

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("secret")]

URL = "/api/v1/webhooks/stripe/"
TWO_MINUTES = timedelta(minutes=2)
Standing = ProviderEvent.Standing


@pytest.fixture
def task() -> PaymentTask:
    """A payment that waits for its worker; 100.00 USD."""
    return PaymentTask.objects.get(operation=factories.reserved())


def post(body: str | bytes, headers: dict[str, str], url: str = URL) -> int:
    answer = Client().post(url, data=body, content_type="application/json", headers=headers)
    return answer.status_code


def deliver(event: object) -> int:
    """The status our endpoint answers a genuine delivery with."""
    return post(*signed(event))


def told(event: object) -> str:
    """Deliver an event for the first time; what became of it."""
    known = set(ProviderEvent.objects.values_list("pk", flat=True))
    assert deliver(event) == 204
    return ProviderEvent.objects.exclude(pk__in=known).get().standing


def state(task: PaymentTask) -> str:
    return PaymentTask.objects.get(pk=task.pk).state


def operation_of(task: PaymentTask) -> RefundOperation:
    return RefundOperation.objects.get(pk=task.operation_id)


def figures(task: PaymentTask) -> tuple[int, int, int]:
    """Reserved, refunded and remaining, minor units."""
    balance = OrderBalance.objects.get(order=operation_of(task).order_id)
    return balance.reserved_minor, balance.refunded_minor, balance.remaining_minor


def real_events(provider: SandboxProvider) -> list[Json]:
    return [listed["event"] for listed in provider.events()]


# Who is believed.


def test_a_signed_event_is_stored_and_applied(task: PaymentTask) -> None:
    event = refund_event(task, "succeeded")
    assert deliver(event) == 204
    stored = ProviderEvent.objects.get()
    assert (stored.event_id, stored.kind) == (event["id"], "refund.updated")
    assert stored.standing == Standing.APPLIED
    assert (stored.occurred_at, stored.live_mode) == (HAPPENED_AT, False)
    assert stored.body == signed(event)[0], "kept byte for byte"
    assert state(task) == TaskState.SUCCEEDED
    assert operation_of(task).state == OperationState.PAID
    assert figures(task) == (0, 10_000, 0)


def test_without_a_configured_secret_the_endpoint_does_not_exist(
    task: PaymentTask, settings: Settings
) -> None:
    body, headers = signed(refund_event(task, "succeeded"))
    settings.STRIPE_WEBHOOK_SECRET = ""
    with nothing_changes():
        assert post(body, headers) == 404


def test_only_posts_to_a_known_provider_are_read(task: PaymentTask) -> None:
    body, headers = signed(refund_event(task, "succeeded"))
    with nothing_changes():
        assert Client().get(URL).status_code == 405
        for name in ("manual", "adyen"):
            assert post(body, headers, f"/api/v1/webhooks/{name}/") == 404


def test_a_signature_that_is_not_the_providers_is_refused(task: PaymentTask) -> None:
    body, headers = signed(refund_event(task, "succeeded"))
    forged: list[tuple[str, dict[str, str]]] = [
        (body, {}),
        (body, {"Stripe-Signature": ""}),
        (body, {"Stripe-Signature": "t=1,v1=abc"}),
        signed(body, secret="whsec_of_somebody_else"),
        (body.replace("succeeded", "failed"), headers),
    ]
    with nothing_changes():
        for text, claimed in forged:
            assert post(text, claimed) == 400
        assert post(b"\xff\xfe", headers) == 400


def test_an_old_delivery_is_refused_though_well_signed(task: PaymentTask) -> None:
    event = refund_event(task, "succeeded")
    with nothing_changes():
        assert post(*signed(event, age_seconds=310)) == 400
    assert post(*signed(event, age_seconds=200)) == 204


# Once (WH-02).


def test_the_same_event_again_changes_nothing(task: PaymentTask) -> None:
    event = refund_event(task, "succeeded")
    deliver(event)
    with nothing_changes():
        assert [deliver(event) for _ in range(3)] == [204, 204, 204]


def test_the_same_event_at_the_same_moment_is_stored_and_applied_once(task: PaymentTask) -> None:
    event = refund_event(task, "succeeded")
    assert at_once([lambda: deliver(event)] * 6) == [204] * 6
    assert ProviderEvent.objects.count() == 1
    assert OperationEvent.objects.filter(operation=task.operation_id, verb="paid").count() == 1
    assert figures(task) == (0, 10_000, 0)
    with nothing_changes():
        assert deliver(event) == 204


def test_different_events_at_the_same_moment_end_in_the_newest(task: PaymentTask) -> None:
    events = [
        refund_event(task, "pending"),
        refund_event(task, "succeeded", at=HAPPENED_AT + TWO_MINUTES),
    ]
    calls: list[Callable[[], int]] = [lambda e=e: deliver(e) for e in events * 3]  # type: ignore[misc]
    assert at_once(calls) == [204] * 6
    assert ProviderEvent.objects.count() == 2
    assert state(task) == TaskState.SUCCEEDED


# In any order (WH-01).

PENDING, SUCCEEDED = 0, 1
ORDERS = sorted(
    {
        order
        for length in (2, 3, 4)
        for order in itertools.permutations((PENDING, SUCCEEDED) * 2, length)
        if len(set(order)) == 2
    }
)


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: "".join("ps"[i] for i in o))
def test_pending_and_succeeded_in_any_order_end_succeeded(
    task: PaymentTask, order: Sequence[int]
) -> None:
    events = [
        refund_event(task, "pending"),
        refund_event(task, "succeeded", at=HAPPENED_AT + TWO_MINUTES),
    ]
    seen = set()
    for which in order:
        assert deliver(events[which]) == 204
        assert not (SUCCEEDED in seen and state(task) != TaskState.SUCCEEDED), "moved backwards"
        seen.add(which)
        if state(task) == TaskState.ACCEPTED:
            assert operation_of(task).state == OperationState.RESERVED, "pending is not refunded"
    assert state(task) == TaskState.SUCCEEDED
    assert figures(task) == (0, 10_000, 0)
    assert ProviderEvent.objects.count() == 2


def test_an_older_event_is_kept_and_not_acted_upon(task: PaymentTask) -> None:
    told(refund_event(task, "succeeded"))
    assert told(refund_event(task, "failed", at=HAPPENED_AT - TWO_MINUTES)) == Standing.IGNORED
    assert state(task) == TaskState.SUCCEEDED


def test_two_events_of_the_same_second_are_settled_by_asking(
    task: PaymentTask, provider: SandboxProvider, erp: SandboxErp
) -> None:
    provider.know_payments()
    provider.fault("drop_after")
    dispatch.pay(task.pk)
    refund = provider.ledger()[0]["refund"]
    told(refund_event(task, "pending", refund=refund))
    assert state(task) == TaskState.ACCEPTED
    assert told(refund_event(task, "succeeded", refund=refund)) == Standing.APPLIED
    assert state(task) == TaskState.ACCEPTED, "which of the two came first nobody can say"
    sweep(threads=1)
    assert state(task) == TaskState.SUCCEEDED


def test_succeeded_and_failed_in_the_same_second_are_settled_by_asking(
    task: PaymentTask, provider: SandboxProvider
) -> None:
    provider.know_payments()
    dispatch.pay(task.pk)
    refund = provider.ledger()[0]["refund"]
    provider.move_refund(refund, "failed")
    told(refund_event(task, "succeeded", refund=refund))
    told(refund_event(task, "failed", kind="refund.failed", refund=refund))
    assert state(task) == TaskState.SUCCEEDED, "which of the two came first nobody can say"
    sweep(threads=1)
    assert state(task) == TaskState.RETURNED
    assert operation_of(task).state == OperationState.APPROVED


def test_news_of_a_failure_during_the_call_outlive_the_older_answer(
    task: PaymentTask, provider: SandboxProvider
) -> None:
    provider.know_payments()
    promises = capabilities_of(task.provider)
    claim = outbound.claim(PaymentTask, PaymentAttempt, task.pk, promises)
    assert isinstance(claim, outbound.Claim)
    answer = payment_provider(task.provider).pay(order_of(task))
    refund = provider.ledger()[0]["refund"]
    provider.move_refund(refund, "failed")
    told(refund_event(task, "failed", kind="refund.failed", refund=refund))

    assert not record(task_id=task.pk, claim=claim, outcome=answer), "it was asked before the news"
    assert state(task) == TaskState.UNKNOWN
    sweep(threads=1)
    assert state(task) == TaskState.DECLINED
    assert figures(task) == (0, 0, 10_000)


def test_a_lost_event_about_a_failure_is_made_good_by_asking_about_a_paid_payment(
    task: PaymentTask, provider: SandboxProvider
) -> None:
    provider.know_payments()
    dispatch.pay(task.pk)
    provider.move_refund(provider.ledger()[0]["refund"], "failed")
    ask_again(task_id=task.pk, by=factories.finance())
    sweep(threads=1)
    assert state(task) == TaskState.RETURNED
    assert operation_of(task).state == OperationState.APPROVED


def test_asking_about_a_paid_payment_that_stands_changes_nothing(
    task: PaymentTask, provider: SandboxProvider
) -> None:
    provider.know_payments()
    dispatch.pay(task.pk)
    ask_again(task_id=task.pk, by=factories.finance())
    sweep(threads=1)
    asked = PaymentTask.objects.get(pk=task.pk)
    assert (asked.state, asked.next_look_at) == (TaskState.SUCCEEDED, None)
    assert figures(task) == (0, 10_000, 0)


def test_failed_before_it_was_settled_is_settled_by_asking(
    task: PaymentTask, provider: SandboxProvider, erp: SandboxErp
) -> None:
    provider.know_payments()
    provider.fault("pending")
    dispatch.pay(task.pk)
    provider.move_refund(provider.ledger()[0]["refund"], "failed")
    for event in real_events(provider):
        deliver(event)
    assert state(task) == TaskState.ACCEPTED
    sweep(threads=1)
    assert state(task) == TaskState.DECLINED
    assert operation_of(task).state == OperationState.APPROVED
    assert figures(task) == (0, 0, 10_000)


# Money that comes back.


def came_back(provider: SandboxProvider, refund: str) -> Json:
    """The bank returns a refund a minute later; the provider's event about it."""
    provider.advance_clock(60)
    provider.move_refund(refund, "failed")
    return real_events(provider)[-1]


def test_a_refund_that_fails_after_success_is_owed_again(
    task: PaymentTask, provider: SandboxProvider, erp: SandboxErp
) -> None:
    run_until_done(provider)
    created = real_events(provider)[0]
    assert operation_of(task).state == OperationState.POSTED
    failed = came_back(provider, provider.ledger()[0]["refund"])
    assert [told(created), told(failed)] == [Standing.APPLIED] * 2
    operation = operation_of(task)
    assert (state(task), operation.state) == (TaskState.RETURNED, OperationState.APPROVED)
    assert operation.refunded_minor == 0
    assert figures(task) == (0, 0, 10_000)
    sweep(threads=1)
    item = Mismatch.objects.get(payment=task)
    assert (item.kind, item.status) == (Mismatch.Kind.RETURNED_AFTER_SUCCESS, "open")
    with nothing_changes():
        deliver(failed)

    # Approved once more it is paid under a new key, and the credit in the books stands.
    factories.approved_by(factories.manager(), operation)
    run_until_done(provider)
    assert operation_of(task).state == OperationState.POSTED
    assert [refund["status"] for refund in provider.ledger()] == ["failed", "succeeded"]
    assert len({refund["idempotency_key"] for refund in provider.ledger()}) == 2
    assert len(erp.entries()) == 1
    assert Mismatch.objects.get(pk=item.pk).status == Mismatch.Status.RESOLVED


def test_another_refund_under_our_key_that_failed_takes_nothing_back(task: PaymentTask) -> None:
    told(refund_event(task, "succeeded", refund="re_1"))
    later = HAPPENED_AT + TWO_MINUTES
    assert told(refund_event(task, "failed", refund="re_2", at=later)) == Standing.IGNORED
    assert state(task) == TaskState.SUCCEEDED
    assert figures(task) == (0, 10_000, 0)


def test_another_refund_under_our_key_that_moved_money_is_for_a_person(task: PaymentTask) -> None:
    told(refund_event(task, "succeeded", refund="re_1"))
    told(refund_event(task, "succeeded", refund="re_2", at=HAPPENED_AT + TWO_MINUTES))
    assert PaymentTask.objects.get(pk=task.pk).provider_refund == "re_1"
    mismatches.open_new()
    mismatches.close_righted()
    item = Mismatch.objects.get(payment=task)
    assert (item.kind, item.status) == (Mismatch.Kind.MORE_THAN_ONE_PAYMENT, "open")


def test_paid_after_all_though_given_up_is_for_a_person(
    task: PaymentTask, provider: SandboxProvider
) -> None:
    provider.know_payments()
    provider.fault("decline")
    dispatch.pay(task.pk)
    assert state(task) == TaskState.DECLINED
    assert told(refund_event(task, "succeeded")) == Standing.APPLIED
    assert state(task) == TaskState.DECLINED
    mismatches.open_new()
    item = Mismatch.objects.get(payment=task)
    assert item.kind == Mismatch.Kind.PAYMENT_WITHOUT_OPERATION


def test_an_older_event_that_comes_behind_the_look_up_raises_no_alarm(
    task: PaymentTask, provider: SandboxProvider
) -> None:
    """Found by the soak: a refund that the bank refused could not be approved again."""
    provider.know_payments()
    provider.fault("pending")
    dispatch.pay(task.pk)
    (refund,) = provider.ledger()
    provider.move_refund(refund["refund"], "failed")
    let_pass(60)
    dispatch.pay(task.pk)
    assert state(task) == TaskState.DECLINED

    created, failed = real_events(provider)

    assert created["data"]["object"]["status"] == "pending"
    assert told(created) == Standing.IGNORED
    assert told(failed) == Standing.APPLIED
    assert PaymentTask.objects.get(pk=task.pk).attention == ""


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        ({"amount": 9_999}, Mismatch.Kind.AMOUNT_DIFFERS),
        ({"currency": "eur"}, Mismatch.Kind.CURRENCY_DIFFERS),
    ],
)
def test_an_event_about_another_amount_is_never_a_success(
    task: PaymentTask, fact: dict[str, Any], kind: str
) -> None:
    told(refund_event(task, "succeeded", **fact))
    assert state(task) == TaskState.STUCK
    assert figures(task) == (10_000, 0, 0)
    mismatches.open_new()
    assert Mismatch.objects.get(payment=task).kind == kind


# Events that are too early, not ours, or not understood.


def test_an_event_that_overtakes_our_own_commit_waits_and_is_applied() -> None:
    operation = factories.inspected()
    tender = operation.order.tenders.get()
    early = PaymentTask(
        wire_key=wire_key(operation.operation_key, tender.tender_id, 1),
        amount_minor=10_000,
        currency="USD",
    )
    assert told(refund_event(early, "succeeded")) == Standing.PARKED
    assert webhooks.apply_parked() == 0
    factories.approved_by(factories.manager(), operation)
    let_pass(webhooks.PARKED_LOOK.total_seconds())
    assert webhooks.apply_parked() == 1
    assert PaymentTask.objects.get(operation=operation).state == TaskState.SUCCEEDED
    assert ProviderEvent.objects.get().standing == Standing.APPLIED


def test_an_event_that_nobody_ever_waits_for_is_left_to_a_person_after_a_day(
    task: PaymentTask,
) -> None:
    stranger = PaymentTask(wire_key=wire_key(task.wire_key, "x", 1), amount_minor=1, currency="USD")
    assert told(refund_event(stranger, "succeeded")) == Standing.PARKED
    let_pass(webhooks.PARKED_FOR.total_seconds() + 1)
    assert webhooks.apply_parked() == 0
    assert ProviderEvent.objects.get().standing == Standing.NOT_UNDERSTOOD
    mismatches.open_new()
    assert Mismatch.objects.get().kind == Mismatch.Kind.EVENT_NOT_UNDERSTOOD


def foreign_refund(task: PaymentTask, status: str = "succeeded", **facts: Any) -> Json:
    """A refund made at the provider by somebody else, on the payment of this task."""
    facts = {"metadata": {}, "payment_intent": task.tender.payment, "refund": "re_else"} | facts
    return refund_event(task, status, **facts)


def test_a_refund_that_was_not_made_here_moves_no_payment_of_ours(task: PaymentTask) -> None:
    assert told(foreign_refund(task)) == Standing.NOT_UNDERSTOOD, "more than is left"
    assert state(task) == TaskState.PENDING
    assert figures(task) == (10_000, 0, 0)
    mismatches.open_new()
    assert Mismatch.objects.get().kind == Mismatch.Kind.EVENT_NOT_UNDERSTOOD


def test_a_refund_that_was_not_made_here_eats_the_balance_and_a_person_hears() -> None:
    order = factories.OrderFactory.create(lines=[factories.line(quantity=2)])
    task = factories.reserved(order).payments.get()
    assert figures(task) == (10_000, 0, 10_000)
    assert told(foreign_refund(task, amount=4_000)) == Standing.APPLIED
    assert told(foreign_refund(task, amount=4_000)) == Standing.APPLIED, "and counts once"
    assert figures(task) == (10_000, 4_000, 6_000)
    mismatches.open_new()
    assert mismatches.open_new() == 0
    mismatch = Mismatch.objects.get()
    assert (mismatch.kind, mismatch.at_stake_minor) == (
        Mismatch.Kind.PAYMENT_WITHOUT_OPERATION,
        4_000,
    )


def test_a_refund_that_was_not_made_here_counts_when_it_is_final(task: PaymentTask) -> None:
    assert told(foreign_refund(task, "pending")) == Standing.IGNORED
    assert told(foreign_refund(task, "failed")) == Standing.IGNORED
    assert told(foreign_refund(task, payment_intent="pi_nobody")) == Standing.IGNORED
    assert (figures(task), state(task)) == ((10_000, 0, 0), TaskState.PENDING)


def test_a_known_refund_is_recognised_by_its_id_when_the_event_names_no_key(
    task: PaymentTask,
) -> None:
    told(refund_event(task, "pending"))
    later = HAPPENED_AT + TWO_MINUTES
    told(refund_event(task, "succeeded", at=later, metadata=None))
    assert state(task) == TaskState.SUCCEEDED


def test_an_event_about_something_else_is_kept_and_left_alone(task: PaymentTask) -> None:
    event = refund_event(task, "succeeded", kind="charge.refunded")
    assert told(event) == Standing.IGNORED
    assert state(task) == TaskState.PENDING


NOT_UNDERSTOOD = [
    "",
    "not json",
    "[]",
    "null",
    '{"id": "evt_x"}',
    {"id": "evt_x", "type": "refund.updated", "created": 1, "livemode": False, "data": {}},
]


@pytest.mark.parametrize("body", NOT_UNDERSTOOD, ids=range(len(NOT_UNDERSTOOD)))
def test_a_genuine_event_of_an_unknown_shape_is_kept_whole_for_a_person(
    task: PaymentTask, body: object
) -> None:
    assert told(body) == Standing.NOT_UNDERSTOOD
    event = ProviderEvent.objects.get()
    assert event.body == signed(body)[0]
    with nothing_changes():
        assert deliver(body) == 204
    mismatches.open_new()
    assert Mismatch.objects.get(event=event).kind == Mismatch.Kind.EVENT_NOT_UNDERSTOOD
    assert state(task) == TaskState.PENDING


@pytest.mark.parametrize(
    "fact",
    [
        {"status": "half-done"},
        {"amount": None},
        {"metadata": {"payment_key": "not-a-uuid"}},
        {"id": "re_\0"},
        {"id": "re_" + "x" * 300},
    ],
)
def test_a_refund_event_that_cannot_be_read_whole_is_not_read_in_part(
    task: PaymentTask, fact: dict[str, Any]
) -> None:
    event = refund_event(task, "succeeded")
    event["data"]["object"] |= fact
    assert told(event) == Standing.NOT_UNDERSTOOD
    assert state(task) == TaskState.PENDING


@pytest.mark.parametrize("live", [True, False], ids=["live-event", "test-event"])
def test_events_of_the_other_mode_never_touch_our_rows(
    task: PaymentTask, settings: Settings, live: bool
) -> None:
    settings.STRIPE_LIVE_MODE = not live
    assert told(refund_event(task, "succeeded", live_mode=live)) == Standing.IGNORED
    assert state(task) == TaskState.PENDING
    assert figures(task) == (10_000, 0, 0)
