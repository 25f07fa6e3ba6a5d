"""Chargebacks: a bank that takes a payment back must not meet a refund of the same money."""

from __future__ import annotations

import pytest

from payments import dispatch, webhooks
from payments.models import ProviderEvent
from reconciliation import mismatches
from reconciliation.models import Mismatch
from returns.errors import WrongState
from returns.models import Order, OrderBalance
from returns.states import OperationState
from tests import factories
from tests.events import signed
from tests.oracle import nothing_changes, refused
from tests.payments.reading import figures, open_mismatch, operation_of, reserved_payment
from tests.sandboxes import SandboxProvider
from tests.workers import run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

Standing, Kind = ProviderEvent.Standing, Mismatch.Kind


def disputed(provider: SandboxProvider, payment: str, amount_minor: int) -> ProviderEvent:
    """The customer's bank takes it back, and the provider tells us."""
    provider.dispute(payment, amount_minor)
    return hear(provider.events()[-1]["event"])


def hear(event: object) -> ProviderEvent:
    body, headers = signed(event)
    return webhooks.receive(name="stripe", body=body.encode(), headers=headers)


def test_beside_a_refund_of_ours_a_person_hears(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    dispatch.pay(task.pk)
    run_until_done(provider)
    before = figures(task)
    assert disputed(provider, task.tender.payment, 100_00).standing == Standing.APPLIED
    assert open_mismatch(task).kind == Kind.CHARGEBACK_BESIDE_REFUND
    assert figures(task) == before, "what to do about it is for a person"


def test_before_any_refund_it_eats_what_could_be_refunded(provider: SandboxProvider) -> None:
    order = factories.OrderFactory.create()
    provider.know_payments()
    assert disputed(provider, payment_of(order), 100_00).standing == Standing.APPLIED
    assert OrderBalance.objects.get(order=order).remaining_minor == 0
    mismatches.open_new()
    assert Mismatch.objects.get().at_stake_minor == 100_00


def test_of_a_payment_under_way_the_provider_refuses_the_refund(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    disputed(provider, task.tender.payment, 100_00)
    dispatch.pay(task.pk)
    assert provider.ledger() == []
    assert open_mismatch(task).kind == Kind.CHARGEBACK_BESIDE_REFUND


def test_what_the_bank_has_given_back_is_not_paid_again_another_way(
    provider: SandboxProvider,
) -> None:
    order = factories.OrderFactory.create(
        lines=[factories.line(quantity=2)],
        tenders=[factories.card(100_00), factories.cash(100_00)],
    )
    task = reserved_payment(provider, order=order)
    disputed(provider, task.tender.payment, 100_00)
    dispatch.pay(task.pk)
    operation = operation_of(task)
    with refused(WrongState, state=OperationState.APPROVED):
        factories.approved_by(factories.manager(), operation, 100_00, {"cash": 100_00})


def test_the_same_news_again_changes_nothing(provider: SandboxProvider) -> None:
    order = factories.OrderFactory.create()
    provider.know_payments()
    disputed(provider, payment_of(order), 100_00)
    event = provider.events()[-1]["event"]
    with nothing_changes():
        assert hear(event).standing == Standing.APPLIED
    hear(event | {"id": "evt_again"})
    assert OrderBalance.objects.get(order=order).refunded_minor == 100_00, "counts once"


def test_one_that_was_won_is_left_to_a_person(provider: SandboxProvider) -> None:
    task = reserved_payment(provider)
    disputed(provider, task.tender.payment, 100_00)
    event = provider.events()[-1]["event"]
    closed = event | {"id": "evt_won", "type": "charge.dispute.closed"}
    closed["data"] = {"object": event["data"]["object"] | {"status": "won"}}
    before = figures(task)
    assert hear(closed).standing == Standing.NOT_UNDERSTOOD
    assert figures(task) == before


def test_what_happens_to_a_dispute_in_between_is_kept_and_left_alone(
    provider: SandboxProvider,
) -> None:
    task = reserved_payment(provider)
    disputed(provider, task.tender.payment, 100_00)
    event = provider.events()[-1]["event"]
    before = figures(task)
    later = event | {"id": "evt_later", "type": "charge.dispute.updated"}
    assert hear(later).standing == Standing.IGNORED
    assert figures(task) == before


def test_of_a_payment_that_is_not_ours_it_is_ignored(provider: SandboxProvider) -> None:
    reserved_payment(provider)
    event = {
        "id": "evt_1",
        "object": "event",
        "type": "charge.dispute.created",
        "created": 1_790_000_000,
        "livemode": False,
        "data": {
            "object": {
                "id": "dp_1",
                "amount": 5,
                "currency": "usd",
                "status": "needs_response",
                "metadata": {},
                "charge": "ch_nobody",
                "payment_intent": "pi_nobody",
            }
        },
    }
    assert hear(event).standing == Standing.IGNORED


def payment_of(order: Order) -> str:
    return str(order.tenders.get().payment)
