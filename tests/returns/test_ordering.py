"""An order is confirmed once and stays as it was sold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from payments.models import PaymentTask
from returns.errors import Invalid, NotAllowed, OrderChanged
from returns.models import Order, RefusedAttempt
from returns.order_facts import OrderFacts, PastRefund
from returns.ordering import Confirmed, clean_number, confirm_order
from tests import factories
from tests.factories import card, cash, line, order_facts
from tests.oracle import nothing_changes, refused

pytestmark = pytest.mark.django_db


def confirm(facts: OrderFacts) -> tuple[Order, Confirmed]:
    return confirm_order(number=facts.number, facts=facts, by=factories.integration())


def with_line(facts: OrderFacts, **changed: Any) -> OrderFacts:
    """The same order with its first line sold otherwise, and paid accordingly."""
    lines = (replace(facts.lines[0], **changed), *facts.lines[1:])
    other = replace(facts, lines=lines)
    return replace(other, tenders=(replace(facts.tenders[0], amount_minor=other.total_minor),))


def test_a_new_order_has_everything_captured_left() -> None:
    facts = order_facts(
        lines=[line("shirt", 2_500, 2, discount_minor=300, tax_minor=80), line("hat", 1_000)],
        shipping_minor=500,
        discount_minor=100,
        tenders=[card(4_000), cash(2_180)],
    )
    order, confirmed = confirm(facts)
    assert confirmed is Confirmed.CREATED
    assert (order.balance.captured_minor, order.balance.remaining_minor) == (6_180, 6_180)
    left = {tender.tender_id: tender.balance.remaining_minor for tender in order.tenders.all()}
    assert left == {"card": 4_000, "cash": 2_180}
    assert sum(one.total_minor for one in order.lines.all()) + order.shipping_minor == 6_180


def test_the_same_order_again_changes_nothing() -> None:
    facts = order_facts(past_refunds=[PastRefund("card", "earlier", 1_000)])
    confirm(facts)
    with nothing_changes():
        _, confirmed = confirm(facts)
    assert confirmed is Confirmed.UNCHANGED


def test_a_number_in_another_case_is_the_same_order() -> None:
    order, _ = confirm(order_facts(number="W2611340a"))
    facts = order_facts(number="w2611340A", tenders=order_tenders(order))
    again, confirmed = confirm(facts)
    assert (again.pk, confirmed) == (order.pk, Confirmed.UNCHANGED)
    assert clean_number(" #W2611340a ") == "W2611340a"


def order_tenders(order: Order) -> list[Any]:
    tender = order.tenders.get()
    return [replace(card(tender.amount_minor), payment=tender.payment)]


def test_a_later_line_and_its_payment_extend_the_order_even_under_a_return() -> None:
    facts = order_facts()
    order, _ = confirm(facts)
    factories.received(order)
    extended = replace(
        facts, lines=(*facts.lines, line("hat", 500)), tenders=(*facts.tenders, cash(500))
    )
    _, confirmed = confirm(extended)
    order.balance.refresh_from_db()
    assert confirmed is Confirmed.EXTENDED
    assert order.balance.captured_minor == 10_500


def test_facts_may_be_corrected_while_no_return_rests_on_them() -> None:
    facts = order_facts()
    order, _ = confirm(facts)
    _, confirmed = confirm(with_line(facts, unit_price_minor=9_000))
    order.balance.refresh_from_db()
    assert confirmed is Confirmed.EXTENDED
    assert (order.balance.captured_minor, order.lines.get().total_minor) == (9_000, 9_000)


@pytest.mark.parametrize(
    "changed",
    [
        {"unit_price_minor": 9_000},
        {"quantity": 2},
        {"discount_minor": 10},
        {"tax_minor": 10},
    ],
)
def test_sold_facts_never_change_under_a_return(changed: dict[str, int]) -> None:
    facts = order_facts()
    factories.received(confirm(facts)[0])
    with refused(OrderChanged, code="order_changed") as refusal:
        confirm(with_line(facts, **changed))
    assert set(refusal.value.facts["changed"]) == {"line shirt", "tender card"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"payment": "pi_another"}, "tender card"),
        ({"provider": "manual"}, "tender card"),
    ],
)
def test_the_destination_of_a_refund_never_changes_under_a_return(
    changed: dict[str, Any], named: str
) -> None:
    facts = order_facts()
    factories.received(confirm(facts)[0])
    with refused(OrderChanged) as refusal:
        confirm(replace(facts, tenders=(replace(facts.tenders[0], **changed),)))
    assert list(refusal.value.facts["changed"]) == [named]


def test_the_shipping_charge_never_changes_under_a_return() -> None:
    facts = order_facts(shipping_minor=500)
    factories.received(confirm(facts)[0])
    tenders = (replace(facts.tenders[0], amount_minor=10_600),)
    with refused(OrderChanged):
        confirm(replace(facts, shipping_minor=600, tenders=tenders))


def test_a_new_discount_on_the_order_does_not_reprice_lines_under_a_return() -> None:
    facts = order_facts(lines=[line("coat", 6_000), line("hat", 4_000)])
    factories.received(confirm(facts)[0])
    tenders = (replace(facts.tenders[0], amount_minor=9_000),)
    with refused(OrderChanged):
        confirm(replace(facts, discount_minor=1_000, tenders=tenders))


def test_money_that_went_back_before_fixes_the_facts_as_well() -> None:
    facts = order_facts(past_refunds=[PastRefund("card", "earlier", 1_000)])
    confirm(facts)
    with refused(OrderChanged):
        confirm(with_line(facts, unit_price_minor=20_000))


@pytest.mark.parametrize("under_a_return", [False, True])
def test_a_confirmed_order_never_loses_a_line(under_a_return: bool) -> None:
    facts = order_facts(lines=[line("shirt"), line("hat", 500)])
    order, _ = confirm(facts)
    if under_a_return:
        factories.received(order)
    shorter = replace(facts, lines=facts.lines[:1])
    with refused(OrderChanged):
        confirm(replace(shorter, tenders=(replace(facts.tenders[0], amount_minor=10_000),)))


def test_the_customer_may_move_and_the_parcel_arrive() -> None:
    facts = order_facts(delivered=False)
    order, _ = confirm(facts)
    _, confirmed = confirm(replace(facts, delivered=True, customer_email="new@example.com"))
    assert confirmed is Confirmed.EXTENDED
    order.refresh_from_db()
    assert (order.delivered, order.customer_email) == (True, "new@example.com")


@pytest.mark.parametrize("under_a_return", [False, True])
def test_what_lines_and_tenders_are_called_may_be_told_anew(under_a_return: bool) -> None:
    facts = order_facts()
    order, _ = confirm(facts)
    if under_a_return:
        factories.received(order)
    renamed = replace(
        facts,
        lines=(replace(facts.lines[0], sku="4012345000019", description="A linen shirt"),),
        tenders=(replace(facts.tenders[0], label="Visa ending 4242"),),
    )
    assert confirm(renamed)[1] is Confirmed.EXTENDED
    sold = order.lines.get()
    assert (sold.sku, sold.description) == ("4012345000019", "A linen shirt")
    assert order.tenders.get().label == "Visa ending 4242"
    assert confirm(renamed)[1] is Confirmed.UNCHANGED


def test_thousands_of_orders_can_be_confirmed_again_with_few_statements(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    facts, by = order_facts(lines=[line("shirt"), line("hat", 500)]), factories.integration()
    # Of these one reads the groups of the user, once for all orders, and two are the transaction.
    with django_assert_max_num_queries(9):
        confirm_order(number=facts.number, facts=facts, by=by)
    with django_assert_max_num_queries(7):
        confirm_order(number=facts.number, facts=facts, by=by)


# Money that had already gone back.


def test_past_refunds_count_as_refunded_once() -> None:
    facts = order_facts(past_refunds=[PastRefund("card", "earlier", 4_000)])
    order, _ = confirm(facts)
    confirm(replace(facts, past_refunds=(*facts.past_refunds, PastRefund("card", "later", 500))))
    order.balance.refresh_from_db()
    assert (order.balance.refunded_minor, order.balance.remaining_minor) == (4_500, 5_500)
    assert order.balance.external_minor == 4_500


def test_a_past_refund_with_another_amount_is_a_changed_fact() -> None:
    facts = order_facts(past_refunds=[PastRefund("card", "earlier", 4_000)])
    confirm(facts)
    with refused(OrderChanged, changed={"refund earlier": [4_000, 5_000]}):
        confirm(replace(facts, past_refunds=(PastRefund("card", "earlier", 5_000),)))


def test_a_past_refund_of_money_that_is_reserved_here_is_refused_with_what_is_left() -> None:
    facts = order_facts()
    order, _ = confirm(facts)
    factories.reserved(order, amount_minor=8_000)
    with refused(OrderChanged, remaining="20.00"):
        confirm(replace(facts, past_refunds=(PastRefund("card", "dashboard", 2_001),)))
    confirm(replace(facts, past_refunds=(PastRefund("card", "dashboard", 2_000),)))
    order.balance.refresh_from_db()
    assert order.balance.remaining_minor == 0


def test_our_own_refund_in_the_shops_history_is_not_counted_twice(
    run_workers: Callable[..., None],
) -> None:
    facts = order_facts()
    order, _ = confirm(facts)
    factories.reserved(order, amount_minor=10_000)
    run_workers()
    reference = PaymentTask.objects.get().provider_refund
    assert reference
    _, confirmed = confirm(replace(facts, past_refunds=(PastRefund("card", reference, 10_000),)))
    order.balance.refresh_from_db()
    assert confirmed is Confirmed.UNCHANGED
    assert (order.balance.refunded_minor, order.balance.external_minor) == (10_000, 0)


# What cannot be true is refused whole.


def contradiction(**changed: Any) -> OrderFacts:
    return replace(order_facts(lines=[line("shirt"), line("hat", 500)]), **changed)


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        (contradiction(shipping_minor=1), "tenders"),
        (contradiction(tenders=()), "tenders"),
        (contradiction(tenders=(card(10_500), card(10_500))), "tenders"),
        (contradiction(tenders=(card(20_500), card(-10_000, "other"))), "tenders"),
        (contradiction(tenders=(card(10_500), card(0, "other"))), "tenders"),
        (contradiction(tenders=(replace(card(10_500), provider="piggy"),)), "tenders"),
        (contradiction(tenders=(replace(card(10_500), payment=""),)), "tenders"),
        (contradiction(lines=()), "lines"),
        (contradiction(lines=(line("hat", 500), line("hat", 10_000))), "lines"),
        (contradiction(lines=(line("hat", 10_500, 0),)), "lines"),
        (contradiction(lines=(line("hat", -500),)), "lines"),
        (contradiction(lines=(line("hat", 500, discount_minor=501),)), "lines"),
        (contradiction(lines=(line("a hat", 10_500),)), "lines"),
        (contradiction(shipping_minor=-500), "lines"),
        (contradiction(discount_minor=10_501), "lines"),
        (contradiction(number="W 1"), "number"),
        (contradiction(number="W,1"), "number"),
        (contradiction(number="W1\x7f"), "number"),
        (contradiction(number="W" * 65), "number"),
        # Equal to STRASSE1 in upper case for Python, but not for PostgreSQL.
        (contradiction(number="STRAßE1"), "number"),
        (contradiction(lines=(line("größe", 10_500),)), "lines"),
        (contradiction(tenders=(card(10_500, "gift card"),)), "tenders"),
        (contradiction(tenders=(card(10_500, "crédit"),)), "tenders"),
        (contradiction(number=""), "number"),
        (contradiction(currency="XYZ"), "currency"),
        (contradiction(past_refunds=(PastRefund("card", "r", 0),)), "tenders"),
        (contradiction(past_refunds=(PastRefund("card", "r", 10_501),)), "tenders"),
        (contradiction(past_refunds=(PastRefund("cash", "r", 1),)), "tenders"),
    ],
)
def test_contradictions_are_refused_by_field(facts: OrderFacts, field: str) -> None:
    with refused(Invalid, code="invalid") as refusal:
        confirm(facts)
    assert list(refusal.value.fields) == [field]


@pytest.mark.parametrize("role", ["desk", "manager", "finance"])
def test_only_the_shop_confirms_orders(role: str) -> None:
    facts, somebody = order_facts(), factories.person("somebody", role)
    with refused(NotAllowed, code="role"):
        confirm_order(number=facts.number, facts=facts, by=somebody)
    attempt = RefusedAttempt.objects.get()
    assert (attempt.by, attempt.verb, attempt.facts["said"]) == (
        somebody,
        "confirm_order",
        {"action": "confirm_order"},
    )
