"""Approving and paying, as a program sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ

from payments import outbound, settlement
from payments.capabilities import capabilities_of
from payments.models import PaymentAttempt, PaymentTask
from payments.outcomes import Settled
from reconciliation.mismatches import open_new
from returns.models import Order, RefundOperation, RefusedAttempt
from tests import factories
from tests.api_client import Answer, Api
from tests.factories import OrderFactory
from tests.oracle import nothing_changes
from tests.sandboxes import SandboxProvider

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Api:
    return Api(factories.desk())


@pytest.fixture
def manager() -> Api:
    return Api(factories.manager())


@pytest.fixture
def finance() -> Api:
    return Api(factories.finance())


@pytest.fixture
def order() -> Order:
    """One shirt for 100.00, paid by card."""
    return OrderFactory.create()


def pay(provider: SandboxProvider, operation: RefundOperation) -> PaymentTask:
    """The payment of an operation after a worker has gone as far as it could."""
    provider.know_payments()
    return factories.pay(operation).payments.select_related("operation").get()


def approve(api: Api, operation: RefundOperation, **body: Any) -> Answer:
    return api.post(f"returns/{operation.operation_key}/approve/", body)


class TestApproving:
    def test_approving_reserves_the_money_and_records_the_payment(
        self, manager: Api, order: Order
    ) -> None:
        operation = factories.inspected(order)
        answer = approve(manager, operation, amount="47.84", note="worn a little")
        assert answer.status == 200
        assert (answer.body["state"], answer.body["amount"]) == ("reserved", "47.84")
        assert answer.body["refunded"] == "0.00"
        assert answer.body["next_step"]["verb"] is None
        balance = manager.get(f"orders/{order.number}/").body["balance"]
        assert (balance["reserved"], balance["refundable"]) == ("47.84", "52.16")
        assert PaymentTask.objects.get().amount_minor == 4784
        assert OrmQ.objects.count() == 1

    def test_the_same_approval_again_changes_nothing(self, manager: Api) -> None:
        operation = factories.inspected()
        first = approve(manager, operation, amount="100.00")
        with nothing_changes():
            again = approve(manager, operation, amount="100.00")
        assert (again.status, again.body) == (200, first.body)

    def test_the_short_reference_names_the_return_as_well(self, manager: Api) -> None:
        operation = factories.inspected()
        answer = manager.post(f"returns/{operation.reference}/approve/", {"amount": "1"})
        assert (answer.status, answer.body["amount"]) == (200, "1.00")

    def test_the_amount_may_be_spread_over_tenders(self, manager: Api) -> None:
        order = OrderFactory.create(tenders=[factories.card(6000), factories.cash(4000)])
        parts = [{"tender": "cash", "amount": "40.00"}, {"tender": "card", "amount": "35.50"}]
        answer = approve(manager, factories.inspected(order), amount="75.50", tenders=parts)
        assert answer.body["state"] == "reserved"
        paid_on = PaymentTask.objects.values_list("tender__tender_id", "amount_minor")
        assert dict(paid_on) == {"cash": 4000, "card": 3550}

    @pytest.mark.parametrize(
        "amount",
        [
            *("-10", "+1", "0", "0.00", "", " 1", "1e2", "NaN", "Infinity", "0x10", "1_000"),
            *("0.001", "100,00", "\u0661\u0660", "9" * 400, "100.00\x00"),
            *(None, True, 100, 100.0, [], {}, ["100.00"]),
        ],
        ids=lambda amount: repr(amount)[:20],
    )
    def test_an_amount_that_is_none_is_refused(self, manager: Api, amount: object) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = approve(manager, operation, amount=amount)
        assert (answer.status, answer.code) == (400, "invalid")
        assert list(answer.fields) == ["amount"]

    @pytest.mark.parametrize("raw", [b'{"amount": NaN}', b'{"amount": 1e999}', b'{"amount": 1e2}'])
    def test_a_number_is_no_amount(self, manager: Api, raw: bytes) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = manager.send("POST", f"returns/{operation.reference}/approve/", raw)
        assert answer.status == 400

    def test_there_is_no_default_amount(self, manager: Api) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = approve(manager, operation)
        assert answer.fields == {"amount": ["This field is required."]}

    @pytest.mark.parametrize(
        ("currency", "amount"), [("JPY", "10.5"), ("USD", "0.005"), ("KWD", "0.0001")]
    )
    def test_more_decimals_than_the_currency_has_are_refused(
        self, manager: Api, currency: str, amount: str
    ) -> None:
        operation = factories.inspected(OrderFactory.create(currency=currency))
        with nothing_changes():
            answer = approve(manager, operation, amount=amount)
        assert (answer.status, list(answer.fields)) == (400, ["amount"])

    def test_more_than_is_left_is_refused_with_what_remains(
        self, manager: Api, order: Order
    ) -> None:
        factories.reserved(order, amount_minor=6000)
        goodwill = factories.inspected(order, goodwill=factories.goodwill("40.00"))
        with nothing_changes():
            answer = approve(manager, goodwill, amount="40.01")
        assert (answer.status, answer.code) == (409, "insufficient_balance")
        assert (answer.body["remaining"], answer.body["currency"]) == ("40.00", "USD")
        assert approve(manager, goodwill, amount="40.00").status == 200

    def test_a_cent_more_than_was_captured_is_refused(self, manager: Api) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = approve(manager, operation, amount="100.01")
        assert (answer.status, answer.code) == (409, "insufficient_balance")
        assert answer.body["remaining"] == "100.00"

    @pytest.mark.parametrize(
        ("parts", "field"),
        [
            ([("card", "150"), ("cash", "-50")], "tenders.1.amount"),
            ([("card", "100.00"), ("cash", "0")], "tenders"),
            ([("card", "60.00"), ("card", "40.00")], "tenders"),
            ([("card", "60.00")], "tenders"),
            ([("voucher", "100.00")], "tenders"),
            ([], "tenders"),
        ],
    )
    def test_parts_that_do_not_make_the_amount_are_refused(
        self, manager: Api, parts: list[tuple[str, str]], field: str
    ) -> None:
        order = OrderFactory.create(tenders=[factories.card(6000), factories.cash(4000)])
        operation = factories.inspected(order)
        tenders = [{"tender": tender, "amount": amount} for tender, amount in parts]
        with nothing_changes():
            answer = approve(manager, operation, amount="100.00", tenders=tenders)
        assert (answer.status, list(answer.fields)) == (400, [field])

    def test_a_part_above_what_its_tender_has_left_is_refused(self, manager: Api) -> None:
        order = OrderFactory.create(tenders=[factories.card(6000), factories.cash(4000)])
        operation = factories.inspected(order)
        tenders = [{"tender": "card", "amount": "60.01"}, {"tender": "cash", "amount": "39.99"}]
        with nothing_changes():
            answer = approve(manager, operation, amount="100.00", tenders=tenders)
        assert (answer.status, answer.code) == (409, "insufficient_balance")
        assert answer.body["remaining"] == "60.00"

    @pytest.mark.parametrize(
        ("extra", "field"),
        [
            ({"ammount": "1.00"}, "ammount"),
            ({"full": True}, "full"),
            ({"tenders": None}, "tenders"),
            ({"tenders": {"card": "1.00"}}, "tenders"),
            ({"tenders": [{"tender": "card", "amount": "1", "x": 1}]}, "tenders.0.x"),
            ({"note": 5}, "note"),
            ({"note": "n" * 2001}, "note"),
            ({"version": "1"}, "version"),
            ({"version": True}, "version"),
            ({"seen_remaining": 100}, "seen_remaining"),
        ],
    )
    def test_a_field_that_is_not_understood_is_refused(
        self, manager: Api, extra: dict[str, Any], field: str
    ) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = approve(manager, operation, amount="1.00", **extra)
        assert (answer.status, list(answer.fields)) == (400, [field])

    def test_a_decision_on_an_older_version_is_refused(self, manager: Api) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = approve(manager, operation, amount="1.00", version=operation.version - 1)
        assert (answer.status, answer.code) == (409, "stale")
        assert answer.body["version"] == operation.version

    def test_a_decision_on_an_older_balance_is_refused(self, manager: Api, order: Order) -> None:
        factories.reserved(order, amount_minor=2500)
        goodwill = factories.inspected(order, goodwill=factories.goodwill("10"))
        with nothing_changes():
            answer = approve(manager, goodwill, amount="10", seen_remaining="100.00")
        assert (answer.status, answer.code) == (409, "stale")
        assert (answer.body["seen"], answer.body["remaining"]) == ("100.00", "75.00")
        assert approve(manager, goodwill, amount="10", seen_remaining="75.00").status == 200

    def test_only_an_inspected_return_is_approved(self, manager: Api) -> None:
        operation = factories.received()
        with nothing_changes():
            answer = approve(manager, operation, amount="1.00")
        assert (answer.status, answer.code) == (409, "wrong_state")
        assert answer.body["state"] == "received"

    def test_an_unknown_return_is_not_found(self, manager: Api) -> None:
        answer = manager.post("returns/R-404/approve/", {"amount": "1.00"})
        assert (answer.status, answer.code) == (404, "unknown_return")


class TestWhoApproves:
    def test_the_desk_may_not_and_the_attempt_is_on_record(self, desk: Api) -> None:
        operation = factories.inspected()
        with nothing_changes():
            answer = approve(desk, operation, amount="1.00")
        assert (answer.status, answer.code) == (403, "role")
        attempt = RefusedAttempt.objects.get()
        assert (attempt.verb, attempt.code, attempt.operation) == ("approve", "role", operation)

    def test_nobody_approves_what_they_took_in(self) -> None:
        both = factories.person("both", "desk", "manager")
        operation = factories.inspected(by=both)
        with nothing_changes():
            answer = approve(Api(both), operation, amount="1.00")
        assert (answer.status, answer.code) == (403, "own_intake")
        assert RefusedAttempt.objects.get().code == "own_intake"

    def test_above_the_limit_nobody_may(self, manager: Api) -> None:
        order = OrderFactory.create(lines=[factories.line(price_minor=3_000_000)])
        operation = factories.inspected(order)
        with nothing_changes():
            answer = approve(manager, operation, amount="20000.01")
        assert (answer.status, answer.code) == (403, "over_limit")
        assert answer.body["limit"] == "20000.00"

    def test_a_large_amount_takes_two_different_managers(self, manager: Api) -> None:
        order = OrderFactory.create(lines=[factories.line(price_minor=1_000_000)])
        operation = factories.inspected(order)
        first = approve(manager, operation, amount="10000.00")
        assert (first.status, first.body["state"]) == (200, "approved")
        again = approve(manager, operation, amount="10000.00")
        assert again.body["state"] == "approved"
        second = approve(Api(factories.second_manager()), operation, amount="10000.00")
        assert (second.status, second.body["state"]) == (200, "reserved")


class TestReadingPayments:
    @pytest.mark.django_db(transaction=True)
    def test_payments_are_listed_oldest_first_and_by_state(
        self, finance: Api, provider: SandboxProvider
    ) -> None:
        waiting, done = factories.reserved(), factories.reserved()
        pay(provider, done)
        rows = finance.get("payments/").body["results"]
        assert [row["reference"] for row in rows] == [waiting.reference, done.reference]
        (row,) = finance.get("payments/", state="succeeded").body["results"]
        assert row["operation"] == str(done.operation_key)
        assert (row["order"], row["amount"]) == (done.order.number, "100.00")
        assert (row["state"], row["state_text"]) == ("succeeded", "paid")
        assert row["provider_refund"].startswith("re_")

    @pytest.mark.django_db(transaction=True)
    def test_a_payment_tells_every_call_about_it(
        self, finance: Api, provider: SandboxProvider
    ) -> None:
        task = pay(provider, factories.reserved())
        body = finance.get(f"payments/{task.pk}/").body
        assert [(a["step"], a["purpose"], a["outcome"]) for a in body["attempts"]] == [
            ("started", "send", ""),
            ("ended", "send", "settled"),
        ]

    @pytest.mark.django_db(transaction=True)
    def test_an_unanswered_payment_is_never_told_as_refunded(
        self, finance: Api, provider: SandboxProvider
    ) -> None:
        provider.fault("drop_after", match="/v1/refunds")
        task = pay(provider, factories.reserved())
        body = finance.get(f"payments/{task.pk}/").body
        assert (body["state"], body["state_text"]) == ("unknown", "being checked")
        assert body["next_look_at"] is not None
        assert "refunded" not in json.dumps(body).lower()
        detail = finance.get(f"returns/{task.operation.reference}/").body
        assert (detail["state"], detail["refunded"]) == ("reserved", "0.00")

    @pytest.mark.parametrize("query", ["state=lost", "stat=unknown"])
    def test_a_filter_that_is_not_understood_is_refused(self, finance: Api, query: str) -> None:
        assert finance.get(f"payments/?{query}").status == 400

    @pytest.mark.parametrize("pk", [404, 10**30])
    def test_an_unknown_payment_is_not_found(self, finance: Api, pk: int) -> None:
        for answer in (finance.get(f"payments/{pk}/"), finance.post(f"payments/{pk}/query/")):
            assert (answer.status, answer.code) == (404, "unknown_payment")

    @pytest.mark.parametrize("path", ["payments/", "payments/1/"])
    def test_the_desk_does_not_read_payments(self, desk: Api, path: str) -> None:
        answer = desk.get(path)
        assert (answer.status, answer.code) == (403, "role")

    def test_a_list_costs_the_same_however_long_it_is(self, finance: Api) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                finance.get("payments/")
            return len(captured)

        factories.reserved()
        one = statements()
        for _ in range(4):
            factories.reserved()
        assert statements() == one


class TestAskingTheProvider:
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("role", ["manager", "finance"])
    def test_asking_makes_the_look_due_now_and_nudges_a_worker(
        self, role: str, provider: SandboxProvider
    ) -> None:
        provider.fault("drop_after", match="/v1/refunds")
        task = pay(provider, factories.reserved())
        nudges = OrmQ.objects.count()
        answer = Api(factories.person("asker", role)).post(f"payments/{task.pk}/query/")
        assert (answer.status, answer.body["state"]) == (200, "unknown")
        assert task.next_look_at
        assert answer.body["next_look_at"] < task.next_look_at.isoformat()
        assert OrmQ.objects.count() == nudges + 1

    @pytest.mark.django_db(transaction=True)
    def test_a_paid_payment_is_left_as_it_is(self, finance: Api, provider: SandboxProvider) -> None:
        task = pay(provider, factories.reserved())
        answer = finance.post(f"payments/{task.pk}/query/")
        assert (answer.status, answer.body["state"]) == (200, "succeeded")
        assert len(provider.ledger()) == 1

    def test_the_desk_may_not_ask_and_the_attempt_is_on_record(self, desk: Api) -> None:
        task = factories.reserved().payments.get()
        with nothing_changes():
            answer = desk.post(f"payments/{task.pk}/query/")
        assert (answer.status, answer.code) == (403, "role")
        assert RefusedAttempt.objects.get().verb == "ask_provider"


class TestHandingOver:
    @pytest.fixture
    def task(self) -> PaymentTask:
        order = OrderFactory.create(tenders=[factories.cash(10_000)])
        return factories.reserved(order).payments.get()

    def test_it_is_started_and_confirmed(self, desk: Api, task: PaymentTask) -> None:
        path, name = f"payments/{task.pk}/hand-over/", f"returns/{task.operation}/"
        assert desk.get(name).body["next_step"]["verb"] == "hand_over"
        assert desk.post(path, {"step": "start"}).body["state"] == "sending"
        assert "confirm it or give it up" in desk.get(name).body["next_step"]["text"]
        answer = desk.post(path, {"step": "confirm", "reference": "till 7-113"})
        assert (answer.status, answer.body["state"]) == (200, "succeeded")
        assert answer.body["provider_refund"] == "till 7-113"
        assert desk.get(name).body["state"] == "paid"

    def test_it_is_abandoned_with_a_reason(self, desk: Api, task: PaymentTask) -> None:
        path = f"payments/{task.pk}/hand-over/"
        desk.post(path, {"step": "start"})
        answer = desk.post(path, {"step": "abandon", "reason": "the till was empty"})
        assert (answer.status, answer.body["state"]) == (200, "pending")

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "step"),
            ({"step": "finish"}, "step"),
            ({"step": "confirm"}, "reference"),
            ({"step": "abandon"}, "reason"),
            ({"step": "start", "amount": "1.00"}, "amount"),
        ],
    )
    def test_a_step_that_is_not_understood_is_refused(
        self, desk: Api, task: PaymentTask, body: dict[str, Any], field: str
    ) -> None:
        with nothing_changes():
            answer = desk.post(f"payments/{task.pk}/hand-over/", body)
        assert (answer.status, list(answer.fields)) == (400, [field])

    def test_what_was_not_begun_is_not_confirmed(self, desk: Api, task: PaymentTask) -> None:
        body = {"step": "confirm", "reference": "till 1"}
        with nothing_changes():
            answer = desk.post(f"payments/{task.pk}/hand-over/", body)
        assert (answer.status, answer.code) == (409, "wrong_state")

    def test_programs_hand_nothing_over(self, task: PaymentTask) -> None:
        api = Api(factories.integration())
        answer = api.post(f"payments/{task.pk}/hand-over/", {"step": "start"})
        assert (answer.status, answer.code) == (403, "role")
        assert RefusedAttempt.objects.get().verb == "hand_over"

    def test_an_unknown_payment_is_not_found(self, desk: Api) -> None:
        answer = desk.post("payments/404/hand-over/", {"step": "start"})
        assert (answer.status, answer.code) == (404, "unknown_payment")


class TestWhatComesNext:
    @pytest.mark.django_db(transaction=True)
    def test_a_payment_in_doubt_is_being_asked_about(
        self, finance: Api, provider: SandboxProvider
    ) -> None:
        provider.fault("drop_after", match="/v1/refunds")
        task = pay(provider, factories.reserved())
        step = finance.get(f"returns/{task.operation}/").body["next_step"]
        assert step == {
            "verb": None,
            "text": "The provider is being asked what became of the payment",
        }

    def test_a_payment_set_aside_needs_a_person(self, finance: Api) -> None:
        operation = factories.reserved()
        task = operation.payments.get()
        claim = outbound.claim(PaymentTask, PaymentAttempt, task.pk, capabilities_of("stripe"))
        assert isinstance(claim, outbound.Claim)
        outcome = Settled("re_other", 9_999, "USD")
        settlement.record(task_id=task.pk, claim=claim, outcome=outcome)
        open_new()
        step = finance.get(f"returns/{operation}/").body["next_step"]
        assert step == {"verb": "ask_provider", "text": "A person must look at the payment"}


class TestDeclaringUnpaid:
    def test_a_payment_that_is_not_set_aside_is_not_declared_unpaid(self, finance: Api) -> None:
        task = factories.reserved().payments.get()
        with nothing_changes():
            answer = finance.post(f"payments/{task.pk}/declare-unpaid/", {"reason": "I think so"})
        assert (answer.status, answer.code) == (409, "wrong_state")

    def test_it_needs_a_reason(self, finance: Api) -> None:
        task = factories.reserved().payments.get()
        answer = finance.post(f"payments/{task.pk}/declare-unpaid/", {})
        assert (answer.status, list(answer.fields)) == (400, ["reason"])

    def test_the_desk_does_not_decide_it(self, desk: Api) -> None:
        task = factories.reserved().payments.get()
        answer = desk.post(f"payments/{task.pk}/declare-unpaid/", {"reason": "quicker"})
        assert (answer.status, answer.code) == (403, "role")
