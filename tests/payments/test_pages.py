"""Approving, the inbox, the payments page and handing money over, without JavaScript."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django_q.models import OrmQ

from payments import outbound, settlement
from payments.capabilities import capabilities_of
from payments.models import PaymentAttempt, PaymentTask
from payments.outcomes import Outcome, Refused, Unknown
from returns.models import RefundOperation
from returns.return_request import Item
from returns.states import OperationState, TaskState
from tests import factories
from tests.factories import OrderFactory
from tests.oracle import nothing_changes
from tests.pages import assert_constant, form_on, signed_in, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Client:
    return signed_in(factories.desk())


@pytest.fixture
def manager() -> Client:
    return signed_in(factories.manager())


@pytest.fixture
def finance() -> Client:
    return signed_in(factories.finance())


def approval_of(client: Client, operation: RefundOperation, **other: Any) -> dict[str, Any]:
    """The approval form as it stands on the page, with some fields typed over."""
    fields = form_on(client.get(f"/returns/{operation}/"), f"/returns/{operation}/approve/")
    return {**fields, **other}


def unanswered(operation: RefundOperation) -> PaymentTask:
    """The payment of a reserved return after a call that got no answer."""
    task = PaymentTask.objects.get(operation=operation)
    ended_in(task, Unknown("connection closed before an answer"))
    return PaymentTask.objects.get(pk=task.pk)


def ended_in(task: PaymentTask, outcome: Outcome) -> None:
    """One call about a payment, with this outcome."""
    claim = outbound.claim(PaymentTask, PaymentAttempt, task.pk, capabilities_of(task.provider))
    assert isinstance(claim, outbound.Claim)
    settlement.record(task_id=task.pk, claim=claim, outcome=outcome)


# Approving


def test_the_button_names_amount_and_destination(manager: Client) -> None:
    operation = factories.inspected()
    text = text_of(manager.get(f"/returns/{operation}/"))
    assert "Approve USD 100.00 to Card" in text
    assert "remaining USD 100.00" in text
    page = manager.post(
        f"/returns/{operation}/approve/", approval_of(manager, operation), follow=True
    )
    assert factories.fresh(operation).state == OperationState.RESERVED
    assert "the payment is on its way" in text_of(page)


def test_two_tenders_are_named_with_their_parts(manager: Client) -> None:
    order = OrderFactory.create(
        lines=[factories.line(price_minor=5_000)],
        tenders=[factories.cash(2_000), factories.card(3_000)],
    )
    operation = factories.inspected(order)
    text = text_of(manager.get(f"/returns/{operation}/"))
    assert "Approve USD 50.00 to Cash and Card" in text
    assert "USD 20.00 → Cash" in text
    manager.post(f"/returns/{operation}/approve/", approval_of(manager, operation))
    parts = operation.payments.order_by("pk").values_list("tender__label", "amount_minor")
    assert list(parts) == [("Cash", 2_000), ("Card", 3_000)]


def test_another_amount_is_read_back_before_it_counts(manager: Client) -> None:
    operation = factories.inspected()
    sent = approval_of(manager, operation, amount="64.50", note="haggled")
    with nothing_changes():
        page = manager.post(f"/returns/{operation}/approve/", sent)
    assert page.status_code == 422
    assert "Nothing has been approved yet." in text_of(page)
    assert "Approve USD 64.50 to Card" in text_of(page)
    again = form_on(page, f"/returns/{operation}/approve/")
    assert (again["amount"], again["note"]) == ("64.50", "haggled")
    assert manager.post(f"/returns/{operation}/approve/", again).status_code == 302
    assert factories.fresh(operation).amount_minor == 6_450


def test_an_amount_is_read_the_way_the_users_language_writes_it(manager: Client) -> None:
    operation = factories.inspected()
    page = manager.get(
        f"/returns/{operation}/approve/read-back/",
        {"amount": "64,50"},
        headers={"accept-language": "de"},
    )
    assert "Approve USD 64,50 to Card" in text_of(page)
    english = manager.get(f"/returns/{operation}/approve/read-back/", {"amount": "64,50"})
    assert "is not an amount the way it is written here" in text_of(english)
    assert "disabled" in english.content.decode()


@pytest.mark.parametrize(
    ("amount", "complaint"),
    [
        ("", "required"),
        ("0", "above zero"),
        ("-5", "not an amount"),
        ("10.005", "2 decimals"),
        ("ten", "not an amount"),
        ("4006381333931", "scanned code"),
        ("1e3", "not an amount"),
    ],
)
def test_what_is_no_amount_is_refused_beside_the_field(
    manager: Client, amount: str, complaint: str
) -> None:
    operation = factories.inspected()
    with nothing_changes():
        page = manager.post(
            f"/returns/{operation}/approve/", approval_of(manager, operation, amount=amount)
        )
    assert page.status_code == 422
    assert complaint in text_of(page)
    assert 'aria-invalid="true"' in page.content.decode()
    assert form_on(page, f"/returns/{operation}/approve/")["amount"] == amount


def test_more_than_the_goods_are_worth_is_refused(manager: Client) -> None:
    operation = factories.inspected(
        OrderFactory.create(lines=[factories.line(), factories.line("mug", 5_000)])
    )
    sent = approval_of(manager, operation, amount="120.00", understood="12000")
    page = manager.post(f"/returns/{operation}/approve/", sent)
    assert page.status_code == 422
    assert "At most USD 100.00: what came back is worth that." in text_of(page)


@pytest.mark.parametrize(
    ("amount", "most"),
    [("120", "At most USD 100.00: what came back is worth that."), ("151", "At most USD 100.00")],
)
def test_too_much_is_objected_to_while_it_is_typed(manager: Client, amount: str, most: str) -> None:
    operation = factories.inspected(
        OrderFactory.create(lines=[factories.line(), factories.line("mug", 5_000)])
    )
    page = manager.get(f"/returns/{operation}/approve/read-back/", {"amount": amount})
    assert most in text_of(page)
    assert "Understood" not in text_of(page)
    assert 'type="submit" disabled' in page.content.decode()


def test_more_than_the_order_has_left_names_what_is_left(manager: Client) -> None:
    order = OrderFactory.create(lines=[factories.line(), factories.line("mug", 5_000)])
    factories.reserved(order, items=(Item("mug", quantity=1),))
    goodwill = factories.inspected(order, goodwill=factories.goodwill("100.00"))
    page = manager.get(f"/returns/{goodwill}/approve/read-back/", {"amount": "100.01"})
    assert "At most USD 100.00: that is all this order has left." in text_of(page)


def test_after_a_refusal_no_button_names_an_amount(manager: Client) -> None:
    operation = factories.inspected()
    action = f"/returns/{operation}/approve/"
    page = manager.post(action, approval_of(manager, operation, amount="185.17"))
    text = text_of(page)
    assert "Nothing has been approved: " in text
    assert "Not sent yet" not in text
    assert "Understood" not in text
    assert "Approve USD" not in text
    assert form_on(page, action)["amount"] == "185.17"
    # The button that is there reads another amount back, with scripts or without.
    page = manager.post(action, {**form_on(page, action), "amount": "18.50"})
    assert "Approve USD 18.50 to Card" in text_of(page)


def test_a_second_press_lands_on_the_same_return(manager: Client) -> None:
    operation = factories.inspected()
    sent = approval_of(manager, operation)
    first = manager.post(f"/returns/{operation}/approve/", sent)
    second = manager.post(f"/returns/{operation}/approve/", sent)
    assert first["Location"] == second["Location"] == f"/returns/{operation}/"
    assert operation.payments.count() == 1


def test_figures_that_changed_are_refused_with_the_new_ones(manager: Client) -> None:
    order = OrderFactory.create(lines=[factories.line(), factories.line("mug", 5_000)])
    shirt = factories.inspected(order)
    sent = approval_of(manager, shirt, note="kept")
    mug = factories.inspected(order, items=(Item("mug", quantity=1),))
    factories.approved_by(factories.second_manager(), mug)
    page = manager.post(f"/returns/{shirt}/approve/", sent)
    assert page.status_code == 409
    text = text_of(page)
    assert "remaining when you opened the page USD 150.00" in text
    assert "remaining now USD 100.00" in text
    fresh = approval_of(manager, shirt)
    assert (fresh["note"], fresh["seen_remaining"]) == ("kept", "10000")
    assert manager.post(f"/returns/{shirt}/approve/", fresh).status_code == 302


def test_the_desk_cannot_approve(desk: Client) -> None:
    operation = factories.inspected()
    page = desk.get(f"/returns/{operation}/")
    assert "Only managers can do this." in text_of(page)
    assert 'name="amount"' not in page.content.decode()
    assert desk.post(f"/returns/{operation}/approve/", {"amount": "1"}).status_code == 403
    assert desk.get("/approvals/").status_code == 403
    assert factories.fresh(operation).state == OperationState.INSPECTED


def test_nobody_approves_their_own_intake(manager: Client) -> None:
    operation = factories.inspected(by=factories.manager())
    page = manager.get(f"/returns/{operation}/")
    assert "so somebody else must decide" in text_of(page)
    assert 'name="amount"' not in page.content.decode()
    sent = {"amount": "100.00", "understood": "10000", "version": 2, "seen_remaining": 10_000}
    answer = manager.post(f"/returns/{operation}/approve/", sent)
    assert answer.status_code == 403
    assert "Somebody else must decide" in text_of(answer)


def test_a_large_refund_waits_for_a_second_manager(manager: Client) -> None:
    operation = factories.inspected(OrderFactory.create(lines=[factories.line("sofa", 600_000)]))
    page = manager.post(
        f"/returns/{operation}/approve/", approval_of(manager, operation), follow=True
    )
    assert "A second manager has to agree" in text_of(page)
    assert str(operation) in text_of(manager.get("/approvals/"))
    second = signed_in(factories.second_manager())
    assert "manager approved USD 6,000.00" in text_of(second.get(f"/returns/{operation}/"))
    second.post(f"/returns/{operation}/approve/", approval_of(second, operation))
    assert factories.fresh(operation).state == OperationState.RESERVED


def test_more_than_managers_may_approve_is_said_beside_the_field(manager: Client) -> None:
    operation = factories.inspected(OrderFactory.create(lines=[factories.line("sofa", 9_000_000)]))
    page = manager.post(f"/returns/{operation}/approve/", approval_of(manager, operation))
    assert page.status_code == 403
    assert "Managers may approve up to USD 20,000.00." in text_of(page)


def test_the_inbox_tells_mine_from_others(manager: Client) -> None:
    waiting, own = factories.inspected(), factories.inspected(by=factories.manager())
    done = factories.reserved()
    page = text_of(manager.get("/approvals/"))
    first, rest = page.split("Only others may decide")
    own_part, decided = rest.split("Decided by you today")
    assert str(waiting) in first
    assert str(own) in own_part
    assert str(done) in decided


def test_an_empty_inbox_says_who_is_waited_for(manager: Client) -> None:
    factories.inspected(by=factories.manager())
    text = text_of(manager.get("/approvals/"))
    assert "No refunds wait for you. 1 waits for other managers." in text


# Payments


def test_an_unknown_outcome_is_told_in_these_words(finance: Client) -> None:
    task = unanswered(factories.reserved())
    for path in ("/payments/", f"/returns/{task.operation}/"):
        page = finance.get(path)
        text = text_of(page)
        assert "We asked the provider to pay USD 100.00 at " in text
        assert (
            "and got no answer. The money may or may not have left. Do not pay it another way."
        ) in text
        assert "Next automatic look" in text
        assert "Ask the provider again" in text
        assert "being checked" in text
        assert "Retry" not in text


def test_the_provider_is_asked_again_on_request(finance: Client) -> None:
    task = unanswered(factories.reserved())
    queued = OrmQ.objects.count()
    page = finance.post("/payments/ask/", {"payment": task.pk, "from": "payments"}, follow=True)
    assert "The provider is being asked" in text_of(page)
    assert OrmQ.objects.count() == queued + 1
    assert task.operation.events.filter(verb="ask_again").count() == 1
    assert PaymentTask.objects.get(pk=task.pk).state == TaskState.UNKNOWN


@pytest.mark.parametrize("number", ["", "x", "0", "9" * 30])
def test_asking_about_no_payment_finds_nothing(finance: Client, number: str) -> None:
    assert finance.post("/payments/ask/", {"payment": number}).status_code == 404


def test_the_desk_has_no_business_with_payments(desk: Client) -> None:
    task = unanswered(factories.reserved())
    assert desk.get("/payments/").status_code == 403
    assert desk.post("/payments/ask/", {"payment": task.pk}).status_code == 403
    page = desk.get(f"/returns/{task.operation}/")
    assert "Do not pay it another way." in text_of(page)
    assert "Ask the provider again" not in text_of(page)


def test_an_empty_payments_page_says_so(finance: Client) -> None:
    text = text_of(finance.get("/payments/"))
    assert "No payment is in doubt." in text
    assert "No worker has ever said that it is alive." in text


def by_hand() -> PaymentTask:
    """Cash that waits to be handed back."""
    order = OrderFactory.create(tenders=[factories.cash(10_000)])
    return PaymentTask.objects.get(operation=factories.reserved(order))


def test_approving_what_a_person_pays_says_who_has_to_act(manager: Client) -> None:
    order = OrderFactory.create(tenders=[factories.cash(4_000), factories.card(6_000)])
    operation = factories.inspected(order)
    page = manager.post(
        f"/returns/{operation}/approve/", approval_of(manager, operation), follow=True
    )
    text = text_of(page)
    assert "The money is reserved. Hand it over: USD 40.00 (Cash). The rest is on its way." in text
    assert "the payment is on its way" not in text


def test_a_hand_over_that_has_begun_is_said_so(desk: Client, finance: Client) -> None:
    task = by_hand()
    assert "Waits for a person to hand it over." in text_of(finance.get("/payments/"))
    desk.post(f"/payments/{task.pk}/hand-over/start/")
    text = text_of(desk.get(f"/returns/{task.operation}/"))
    assert "The hand-over has begun: confirm it or give it up" in text
    assert "nothing to do" not in text


def test_a_payment_that_did_not_work_is_said_where_the_manager_acts(manager: Client) -> None:
    operation = factories.reserved()
    task = PaymentTask.objects.get(operation=operation)
    ended_in(task, Refused("closed", "the card is closed"))
    text = text_of(manager.get(f"/returns/{operation}/"))
    assert "The last payment did not work: “closed · the card is closed” ." in text
    assert "USD 100.00 is still owed." in text
    assert "Approve USD 100.00 to Card" in text


def test_cash_is_handed_over_in_two_steps(desk: Client) -> None:
    task = by_hand()
    assert "Hand over USD 100.00: Cash" in text_of(desk.get(f"/returns/{task.operation}/"))
    page = desk.post(f"/payments/{task.pk}/hand-over/start/", follow=True)
    assert page.redirect_chain[-1][0] == f"/payments/{task.pk}/hand-over/"
    assert "do not pay it another way" in text_of(page)
    action = f"/payments/{task.pk}/hand-over/confirm/"
    assert desk.post(action, {"reference": " "}).status_code == 422
    page = desk.post(action, {"reference": "till 7-113"}, follow=True)
    assert "Recorded as paid by hand." in text_of(page)
    assert "till 7-113" in text_of(page)
    assert factories.fresh(task.operation).state == OperationState.PAID


def test_a_hand_over_can_be_given_up_with_a_reason(desk: Client) -> None:
    task = by_hand()
    desk.post(f"/payments/{task.pk}/hand-over/start/")
    action = f"/payments/{task.pk}/hand-over/abandon/"
    assert desk.post(action, {"reason": ""}).status_code == 422
    page = desk.post(action, {"reason": "till was empty"}, follow=True)
    assert "till was empty" in text_of(page)
    assert PaymentTask.objects.get(pk=task.pk).state == TaskState.PENDING


def test_a_reference_is_used_for_one_payment_only(desk: Client) -> None:
    first, second = by_hand(), by_hand()
    for task in (first, second):
        desk.post(f"/payments/{task.pk}/hand-over/start/")
    desk.post(f"/payments/{first.pk}/hand-over/confirm/", {"reference": "till 1"})
    page = desk.post(f"/payments/{second.pk}/hand-over/confirm/", {"reference": "till 1"})
    assert page.status_code == 422
    assert "Another payment already has this reference." in text_of(page)


def test_somebody_elses_hand_over_is_a_conflict(desk: Client) -> None:
    task = by_hand()
    other = signed_in(factories.person("other-desk", "desk"))
    other.post(f"/payments/{task.pk}/hand-over/start/")
    answer = desk.post(f"/payments/{task.pk}/hand-over/start/")
    assert answer.status_code == 409
    assert "by other-desk" in text_of(answer)


def test_inboxes_take_the_same_number_of_statements_whatever_the_rows(manager: Client) -> None:
    def rows(count: int) -> None:
        for _ in range(count):
            factories.inspected()
            factories.inspected(by=factories.manager())
            unanswered(factories.reserved())
            by_hand()

    rows(2)
    assert_constant(manager, ("/approvals/", "/payments/", "/returns/"), lambda: rows(18))
