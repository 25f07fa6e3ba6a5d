"""What the database refuses, whoever asks: each of these is raw SQL that psql could send."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.db.models import Model

from payments.models import Approval, PaymentAttempt, PaymentTask
from reconciliation.models import ErpPosting, Mismatch
from reconciliation.posting import open_postings
from returns.models import (
    Claim,
    Finding,
    Inspection,
    IntakeMessage,
    OperationEvent,
    Order,
    OrderBalance,
    RefundOperation,
    RefusedAttempt,
    Tender,
    TenderBalance,
)
from returns.order_facts import PastRefund
from returns.return_request import Item
from tests import factories, raw_sql
from tests.raw_sql import says_no

pytestmark = pytest.mark.django_db

NEVER_CHANGED = "cannot update or delete"
NEVER_DELETED = "cannot (update or )?delete"


def cash_order(**other: object) -> Order:
    return factories.OrderFactory.create(tenders=[factories.cash(10_000)], **other)


# States.


def test_an_illegal_edge() -> None:
    with says_no("invalid transition"):
        raw_sql.change(factories.received(), state="reserved")


def test_an_operation_inserted_as_paid() -> None:
    operation = factories.received()
    with says_no("cannot insert"):
        raw_sql.copy(operation, state="paid", operation_key=uuid.uuid4(), generation=1)


def test_a_payment_inserted_as_succeeded() -> None:
    task = factories.reserved().payments.get()
    with says_no("cannot insert"):
        raw_sql.copy(task, state="succeeded", wire_key=uuid.uuid4())


def test_paid_without_the_whole_amount_confirmed() -> None:
    with says_no("operation_paid_means_confirmed"):
        raw_sql.change(factories.reserved(), state="paid")


def test_an_ended_operation_with_money_paid() -> None:
    operation = factories.received()
    raw_sql.change(operation, amount_minor=10_000)
    with says_no("operation_ended_means_unpaid"):
        raw_sql.change(operation, state="rejected", refunded_minor=1)


def test_a_payment_on_its_way_that_nobody_looks_at() -> None:
    with says_no("payment_has_a_next_look"):
        raw_sql.change(factories.reserved().payments.get(), next_look_at=None)


# Identity.


def test_a_second_operation_for_the_same_goods_in_the_same_generation() -> None:
    operation = factories.received()
    with says_no("operation_identity"):
        raw_sql.copy(operation, operation_key=uuid.uuid4())


def test_a_second_operation_with_the_same_key() -> None:
    with says_no("operation_key"):
        raw_sql.copy(factories.received(), subject_set="shipping")


def test_the_key_of_an_operation_changed() -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.received(), operation_key=uuid.uuid4())


@pytest.mark.parametrize(
    ("column", "value"),
    [("subject_set", "shipping"), ("generation", 7), ("currency", "EUR"), ("order_id", 0)],
)
def test_what_an_operation_is_about_changed(column: str, value: object) -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.received(), **{column: value})


def test_the_amount_of_an_operation_changed_once_it_is_set() -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.reserved(), amount_minor=9_999)


def test_the_amount_of_an_operation_taken_away_again() -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.reserved(), amount_minor=None)


def test_an_amount_of_nothing() -> None:
    with says_no("operation_amount_positive"):
        raw_sql.change(factories.received(), amount_minor=0)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("wire_key", uuid.UUID(int=7)),
        ("amount_minor", 9_999),
        ("currency", "EUR"),
        ("provider", "manual"),
        ("generation", 7),
        ("tender_id", 0),
        ("operation_id", 0),
    ],
)
def test_what_a_payment_is_about_changed(column: str, value: object) -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.reserved().payments.get(), **{column: value})


def test_the_providers_reference_changed_once_it_is_known() -> None:
    task = factories.paid(cash_order()).payments.get()
    with says_no("cannot update"):
        raw_sql.change(task, provider_refund="another")


def test_two_payments_with_one_provider_reference() -> None:
    first = factories.paid(cash_order()).payments.get()
    second = factories.reserved(cash_order()).payments.get()
    with says_no("one_payment_per_provider_refund"):
        raw_sql.change(second, provider_refund=first.provider_refund)


def test_a_second_payment_in_the_same_round() -> None:
    with says_no("one_payment_per_round_and_tender"):
        raw_sql.copy(factories.reserved().payments.get(), wire_key=uuid.uuid4())


def test_two_payments_with_one_wire_key() -> None:
    task = factories.reserved(amount_minor=6_000).payments.get()
    other = factories.reserved().payments.get()
    with says_no("wire_key"):
        raw_sql.copy(task, wire_key=other.wire_key)


# Claims.


def test_a_second_live_claim_on_a_unit() -> None:
    order = factories.OrderFactory.create(lines=[factories.line(quantity=2)])
    claim = factories.received(order).claims.get()
    other = factories.received(order, items=(Item("shirt", units=(2,)),))
    with says_no("one_live_claim_per_subject"):
        raw_sql.copy(claim, operation_id=other.pk)


def test_a_freed_claim_revived() -> None:
    claim = factories.received().claims.get()
    raw_sql.change(claim, live=False)
    with says_no("cannot update"):
        raw_sql.change(claim, live=True)


def test_a_claim_freed_while_its_money_is_reserved() -> None:
    with says_no("cannot be freed once money is reserved"):
        raw_sql.change(factories.reserved().claims.get(), live=False)


def test_a_claim_freed_after_its_money_was_paid() -> None:
    with says_no("cannot be freed once money is reserved"):
        raw_sql.change(factories.paid(cash_order()).claims.get(), live=False)


def test_a_claim_added_after_intake() -> None:
    claim = factories.inspected().claims.get()
    with says_no("claims are made live, at intake"):
        raw_sql.copy(claim, subject="shipping")


def test_a_claim_on_another_order() -> None:
    claim, other = factories.received().claims.get(), factories.OrderFactory.create()
    with says_no("on the operation's own order"):
        raw_sql.copy(claim, subject="shipping", order_id=other.pk)


@pytest.mark.parametrize(("column", "value"), [("amount_minor", 1), ("subject", "x"), ("unit", 2)])
def test_what_is_claimed_changed(column: str, value: object) -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.received().claims.get(), **{column: value})


# Balances.


@pytest.mark.parametrize("model", [OrderBalance, TenderBalance])
def test_more_reserved_and_refunded_than_was_captured(
    model: type[OrderBalance] | type[TenderBalance],
) -> None:
    factories.reserved(amount_minor=6_000)
    balance = model.objects.get()
    for columns in (
        {"reserved_minor": 10_001},
        {"refunded_minor": 4_001},
        {"captured_minor": 5_999},
    ):
        with says_no("never_above_captured"):
            raw_sql.change(balance, **columns)


@pytest.mark.parametrize("model", [OrderBalance, TenderBalance])
def test_a_balance_below_zero(model: type[OrderBalance] | type[TenderBalance]) -> None:
    factories.OrderFactory.create()
    balance = model.objects.get()
    with says_no("reserved_gte_0"):
        raw_sql.change(balance, reserved_minor=-1)
    with says_no("refunded_gte_0"):
        raw_sql.change(balance, refunded_minor=-1)


def test_money_that_went_back_outside_counted_as_not_refunded() -> None:
    balance = cash_order(past_refunds=[PastRefund("cash", "earlier", 4_000)]).balance
    with says_no("refunded_gte_0"):
        raw_sql.change(balance, refunded_minor=3_999)


@pytest.mark.parametrize("amount_minor", [0, -6_000])
def test_payments_and_approvals_of_nothing_or_less(amount_minor: int) -> None:
    operation = factories.reserved()
    task, approval = operation.payments.get(), operation.approvals.get()
    other = factories.person("third-manager", "manager")
    with says_no("payment_positive"):
        raw_sql.copy(task, amount_minor=amount_minor, wire_key=uuid.uuid4())
    with says_no("approval_positive"):
        raw_sql.copy(approval, amount_minor=amount_minor, approved_by_id=other.pk)


# Payments belong to a reserved round, a tender of the order and its currency.


def test_a_payment_in_another_currency() -> None:
    task = factories.reserved().payments.get()
    with says_no("tender of the same order and currency"):
        raw_sql.copy(task, currency="EUR", wire_key=uuid.uuid4())


def test_a_payment_on_another_orders_tender() -> None:
    task = factories.reserved().payments.get()
    elsewhere = factories.OrderFactory.create().tenders.get()
    with says_no("tender of the same order and currency"):
        raw_sql.copy(task, tender_id=elsewhere.pk, wire_key=uuid.uuid4())


def test_a_payment_for_a_round_that_was_not_reserved() -> None:
    task = factories.reserved().payments.get()
    with says_no("a payment needs a reserved operation"):
        raw_sql.copy(task, generation=2, wire_key=uuid.uuid4())


def test_a_payment_for_an_operation_that_is_not_reserved() -> None:
    task = factories.reserved(amount_minor=5_000).payments.get()
    other = factories.inspected(task.operation.order, goodwill=factories.goodwill("1.00"), items=())
    with says_no("a payment needs a reserved operation"):
        raw_sql.copy(task, operation_id=other.pk, wire_key=uuid.uuid4())


# The order as sold.


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("quantity", 2),
        ("unit_price_minor", 1),
        ("discount_minor", 1),
        ("order_discount_minor", 1),
        ("tax_minor", 1),
    ],
)
def test_a_sold_line_changed_once_a_return_rests_on_it(column: str, value: int) -> None:
    order = factories.OrderFactory.create()
    raw_sql.change(order.lines.get(), **{column: value})
    raw_sql.change(order.lines.get(), quantity=1, unit_price_minor=10_000, discount_minor=0)
    raw_sql.change(order.lines.get(), order_discount_minor=0, tax_minor=0)
    factories.received(order)
    with says_no("returns rest on it"):
        raw_sql.change(order.lines.get(), **{column: value})


@pytest.mark.parametrize(
    ("column", "value"), [("amount_minor", 20_000), ("payment", "pi_x"), ("provider", "manual")]
)
def test_a_tender_changed_once_a_return_rests_on_it(column: str, value: object) -> None:
    order = factories.received().order
    with says_no("returns rest on it"):
        raw_sql.change(order.tenders.get(), **{column: value})


@pytest.mark.parametrize(("column", "value"), [("number", "W1"), ("currency", "EUR")])
def test_the_number_or_currency_of_an_order_changed(column: str, value: str) -> None:
    with says_no("cannot update"):
        raw_sql.change(factories.OrderFactory.create(), **{column: value})


def test_an_order_number_that_differs_in_case_only() -> None:
    with says_no("order_number_unique_any_case"):
        raw_sql.copy(factories.OrderFactory.create(number="W77"), number="w77")


# Records.


def refused_attempt() -> Model:
    factories.received()
    return RefusedAttempt.objects.create(
        verb="approve", code="role", detail="no", at=factories.PLACED_AT
    )


def stored(model: type[Model]) -> Callable[[], Model]:
    """The first row of a table after a return was paid by hand."""

    def make() -> Model:
        factories.paid(cash_order(past_refunds=[PastRefund("cash", "r", 10)]), amount_minor=9_990)
        return model._default_manager.order_by("pk")[0]

    return make


RECORDS = [
    *(
        pytest.param(stored(model), id=model.__name__)
        for model in (Approval, Inspection, Finding, PaymentAttempt, OperationEvent, IntakeMessage)
    ),
    pytest.param(refused_attempt, id="RefusedAttempt"),
]


@pytest.mark.parametrize("make", RECORDS)
def test_a_record_changed_or_deleted(make: Callable[[], Model]) -> None:
    record = make()
    with says_no(NEVER_CHANGED):
        raw_sql.change(record, id=record.pk)
    with says_no(NEVER_CHANGED):
        raw_sql.delete(record)


def external_refund() -> Model:
    order = cash_order(past_refunds=[PastRefund("cash", "earlier", 4_000)])
    return order.tenders.get().external_refunds.get()


def test_an_external_refund_changed_or_deleted() -> None:
    refund = external_refund()
    with says_no(NEVER_CHANGED):
        raw_sql.change(refund, amount_minor=1)
    with says_no(NEVER_CHANGED):
        raw_sql.delete(refund)


def posting() -> Model:
    factories.paid(cash_order())
    open_postings()
    return ErpPosting.objects.get()


def mismatch() -> Model:
    return Mismatch.objects.create(
        fingerprint="x", kind=Mismatch.Kind.STUCK_PAYMENT, detail="x", opened_at=factories.PLACED_AT
    )


@pytest.mark.parametrize(
    "make",
    [
        *(
            pytest.param(stored(model), id=model.__name__)
            for model in (
                *(Order, Tender, OrderBalance, TenderBalance),
                *(RefundOperation, Claim, PaymentTask),
            )
        ),
        posting,
        mismatch,
    ],
)
def test_a_row_of_money_deleted(make: Callable[[], Model]) -> None:
    row = make()
    with says_no(NEVER_DELETED):
        raw_sql.delete(row)


@pytest.mark.parametrize(
    "model", [Order, OrderBalance, TenderBalance, RefundOperation, Claim, PaymentTask]
)
def test_history_changed_or_deleted(model: type[Model]) -> None:
    row = stored(model)()
    past = row.history.order_by("pk")[0]  # type: ignore[attr-defined]
    with says_no(NEVER_CHANGED):
        raw_sql.change(past, pgh_label="nothing happened")
    with says_no(NEVER_CHANGED):
        raw_sql.delete(past)
