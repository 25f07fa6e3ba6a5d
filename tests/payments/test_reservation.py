"""Money is reserved in one transaction, then paid, or released and paid in another round."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import IntegrityError, transaction
from django_q.models import OrmQ

from payments import dispatch, reservation
from payments.models import PaymentTask
from payments.reservation import Part, shift
from returns import identity
from returns.closing import reject, withdraw
from returns.errors import Invalid, WrongState
from returns.models import Order, OrderBalance, RefundOperation
from returns.order_facts import PastRefund
from tests import factories
from tests.factories import approved_by, card, cash, manager, second_manager
from tests.oracle import nothing_changes, refused
from tests.sandboxes import SandboxErp, SandboxProvider


@pytest.fixture
def split_order() -> Order:
    """100.00 of goods: 60.00 on one card, 40.00 on another."""
    return factories.OrderFactory.create(tenders=[card(6_000, "visa"), card(4_000, "amex")])


def balance_of(operation: RefundOperation) -> tuple[int, int, int]:
    """Captured, reserved, refunded of the operation's order."""
    balance = OrderBalance.objects.get(order=operation.order_id)
    return balance.captured_minor, balance.reserved_minor, balance.refunded_minor


@pytest.mark.django_db
def test_a_payment_is_stored_with_its_key_before_anybody_can_send_it() -> None:
    operation = factories.reserved()
    task = operation.payments.get()
    assert task.wire_key == identity.wire_key(operation.operation_key, "card", 1)
    assert (task.state, task.first_sent_at, task.provider_refund) == ("pending", None, None)
    assert task.next_look_at is not None


@pytest.mark.django_db
def test_one_queue_message_is_written_with_the_reservation() -> None:
    factories.reserved()
    assert list(OrmQ.objects.values_list("key", flat=True)) == ["money"]


@pytest.mark.django_db
def test_without_its_queue_message_nothing_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = factories.inspected()

    def broken(*_: object, **__: object) -> None:
        raise ConnectionError("the queue is gone")

    monkeypatch.setattr(reservation, "async_task", broken)
    with nothing_changes(), pytest.raises(ConnectionError):
        approved_by(manager(), operation)


@pytest.mark.django_db
def test_the_database_refuses_to_reserve_what_is_not_there(split_order: Order) -> None:
    operation = factories.reserved(split_order, amount_minor=6_000)
    visa, amex = split_order.tenders.order_by("pk")
    balance = OrderBalance.objects.get(order=split_order)
    for parts in ([Part(visa, 1)], [Part(amex, 4_001)], [Part(amex, 4_000), Part(visa, 1)]):
        with (
            nothing_changes(),
            pytest.raises(IntegrityError, match="never_above_captured"),
            transaction.atomic(),
        ):
            shift(balance, parts, reserved=1)
    assert balance_of(operation) == (10_000, 6_000, 0)


@pytest.mark.django_db
def test_money_that_went_back_elsewhere_is_not_reserved_again() -> None:
    order = factories.OrderFactory.create(
        tenders=[cash(10_000)], past_refunds=[PastRefund("cash", "earlier", 4_000)]
    )
    operation = factories.paid(order, amount_minor=6_000)
    assert balance_of(operation) == (10_000, 0, 10_000)


# A declined payment.


@pytest.mark.django_db(transaction=True)
def test_a_declined_payment_is_released_and_paid_with_a_new_key_after_a_new_yes(
    provider: SandboxProvider, run_workers: Callable[..., None]
) -> None:
    operation = factories.reserved()
    provider.know_payments()
    provider.fault("decline")
    assert factories.pay(operation).state == "approved"
    assert balance_of(operation) == (10_000, 0, 0)
    assert provider.ledger() == []

    again = approved_by(manager(), operation)
    assert (again.state, again.pay_rounds, again.amount_minor) == ("reserved", 2, 10_000)
    run_workers()
    first, second = PaymentTask.objects.order_by("generation")
    assert (first.state, second.state) == ("declined", "succeeded")
    assert first.wire_key != second.wire_key
    assert [out["idempotency_key"] for out in provider.ledger()] == [str(second.wire_key)]
    assert factories.fresh(operation).state == "posted"
    assert balance_of(operation) == (10_000, 0, 10_000)


@pytest.mark.django_db(transaction=True)
def test_after_a_release_the_old_yes_is_no_yes_to_a_new_round(provider: SandboxProvider) -> None:
    operation = declined(provider, factories.reserved())
    assert (operation.state, operation.approvals.count()) == ("approved", 1)
    again = approved_by(manager(), operation)
    generations = again.approvals.order_by("id").values_list("generation", flat=True)
    assert list(generations) == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_a_new_round_pays_exactly_what_is_still_owed(provider: SandboxProvider) -> None:
    operation = declined(provider, factories.reserved(amount_minor=8_000))
    for amount_minor in (7_999, 8_001):
        with refused(Invalid):
            approved_by(manager(), operation, amount_minor)
    assert approved_by(second_manager(), operation, 8_000).state == "reserved"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["reject", "withdraw"])
def test_a_declined_return_may_be_closed_and_its_goods_come_back(
    provider: SandboxProvider, end: str
) -> None:
    operation = declined(provider, factories.reserved())
    key = operation.operation_key
    if end == "reject":
        reject(operation_key=key, by=second_manager(), reason="not ours")
    else:
        withdraw(operation_key=key, by=factories.desk())
    assert factories.received(operation.order).generation == 1


def declined(provider: SandboxProvider, operation: RefundOperation) -> RefundOperation:
    """The operation after the provider has refused its payment."""
    provider.know_payments()
    provider.fault("decline")
    return factories.pay(operation)


# Two tenders, one declined.


@pytest.mark.django_db(transaction=True)
def test_of_two_payments_only_the_declined_one_is_owed_again(
    provider: SandboxProvider, split_order: Order, run_workers: Callable[..., None]
) -> None:
    operation = factories.reserved(split_order)
    half = half_paid(provider, operation)
    assert (half.state, half.refunded_minor, half.outstanding_minor) == ("approved", 6_000, 4_000)
    assert balance_of(operation) == (10_000, 0, 6_000)

    again = approved_by(manager(), half)
    assert again.payments.get(generation=2).amount_minor == 4_000
    run_workers()
    assert factories.fresh(operation).state == "posted"
    assert sorted(out["amount"] for out in provider.ledger()) == [4_000, 6_000]


@pytest.mark.django_db(transaction=True)
def test_a_return_of_which_a_part_was_paid_can_no_longer_be_closed(
    provider: SandboxProvider, split_order: Order
) -> None:
    operation = half_paid(provider, factories.reserved(split_order))
    with refused(WrongState):
        reject(operation_key=operation.operation_key, by=second_manager(), reason="no")
    with refused(WrongState):
        withdraw(operation_key=operation.operation_key, by=factories.desk())


@pytest.mark.django_db(transaction=True)
def test_money_stays_reserved_until_every_payment_of_the_round_is_final(
    provider: SandboxProvider, split_order: Order
) -> None:
    operation = factories.reserved(split_order)
    provider.know_payments()
    visa, amex = operation.payments.order_by("pk")
    provider.fault("decline")
    dispatch.pay(visa.pk)
    assert factories.fresh(operation).state == "reserved"
    assert balance_of(operation) == (10_000, 10_000, 0)
    dispatch.pay(amex.pk)
    assert factories.fresh(operation).state == "approved"
    assert balance_of(operation) == (10_000, 0, 4_000)


def half_paid(provider: SandboxProvider, operation: RefundOperation) -> RefundOperation:
    """The operation after its first payment has succeeded and its second was refused."""
    provider.know_payments()
    first, second = operation.payments.order_by("pk")
    dispatch.pay(first.pk)
    provider.fault("decline")
    dispatch.pay(second.pk)
    return factories.fresh(operation)


# What goes over the wire.


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("currency", "captured_minor", "refund_minor", "on_the_wire", "in_the_books"),
    [
        ("JPY", 9_899, 5_800, 5_800, "5800"),
        ("KWD", 18_600, 18_600, 18_600, "18.600"),
        ("KWD", 100_000, 92_000, 92_000, "92.000"),
        ("USD", 10_000, 4_784, 4_784, "47.84"),
        ("ISK", 1_000, 900, 90_000, "900"),
    ],
)
def test_every_currency_leaves_in_its_own_smallest_unit(
    provider: SandboxProvider,
    erp: SandboxErp,
    run_workers: Callable[..., None],
    currency: str,
    captured_minor: int,
    refund_minor: int,
    on_the_wire: int,
    in_the_books: str,
) -> None:
    order = factories.OrderFactory.create(
        currency=currency, lines=[factories.line(price_minor=captured_minor)]
    )
    operation = factories.reserved(order, amount_minor=refund_minor)
    run_workers()
    (out,) = provider.ledger()
    assert (out["amount"], out["currency"]) == (on_the_wire, currency.lower())
    (entry,) = erp.entries()
    assert (entry["amount"], entry["currency"], entry["state"]) == (
        in_the_books,
        currency,
        "posted",
    )
    assert factories.fresh(operation).refunded_minor == refund_minor


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("currency", "total_minor", "shares"),
    [("KWD", 10_000, [3_333, 3_334, 3_333]), ("JPY", 1_000, [333, 334, 333])],
)
def test_a_third_each_leaves_whole_and_adds_up(
    provider: SandboxProvider,
    run_workers: Callable[..., None],
    currency: str,
    total_minor: int,
    shares: list[int],
) -> None:
    third = factories.line("cup", total_minor, quantity=3, discount_minor=2 * total_minor)
    order = factories.OrderFactory.create(currency=currency, lines=[third])
    for _ in range(3):
        factories.reserved(order, additional=True)
    run_workers()
    assert [out["amount"] for out in provider.ledger()] == shares
    order.balance.refresh_from_db()
    assert (order.balance.refunded_minor, order.balance.remaining_minor) == (total_minor, 0)
