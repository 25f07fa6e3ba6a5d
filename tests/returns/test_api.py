"""Orders in, returns in, and what the desk does with them: what a program sees of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from returns.inspection import UnitFound
from returns.models import Order, RefundOperation, RefusedAttempt
from tests import factories
from tests.api_client import Api
from tests.factories import OrderFactory
from tests.oracle import nothing_changes

pytestmark = pytest.mark.django_db

ORDER: dict[str, Any] = {
    "currency": "USD",
    "placed_at": "2026-03-15T12:00:00Z",
    "customer": {"reference": "c-1", "name": "Ada Example", "email": "ada@example.com"},
    "lines": [
        {
            "id": "shirt",
            "sku": "SKU-1",
            "description": "Shirt",
            "quantity": 2,
            "unit_price": "30.00",
            "discount": "5.00",
            "tax": "4.85",
        },
        {"id": "mug", "quantity": 1, "unit_price": "10.00"},
    ],
    "shipping": "5.00",
    "tenders": [
        {"id": "card", "provider": "stripe", "payment": "pi_order", "amount": "60.00"},
        {"id": "cash", "provider": "manual", "payment": "till-1", "amount": "14.85"},
    ],
}


@pytest.fixture
def shop() -> Api:
    """The integration account: orders in, returns in."""
    return Api(factories.integration())


@pytest.fixture
def desk() -> Api:
    return Api(factories.desk())


@pytest.fixture
def manager() -> Api:
    return Api(factories.manager())


@pytest.fixture
def order() -> Order:
    """Three shirts at 100.00 each and a shipping charge of 5.00."""
    return OrderFactory.create(lines=[factories.line(quantity=3)], shipping_minor=500)


def message(order: Order, /, **other: Any) -> dict[str, Any]:
    """A counter visit that brings one shirt, or what is given instead."""
    items = [{"line": "shirt", "quantity": 1}]
    body = {"channel": "counter", "message_id": "m-1", "order": order.number, "items": items}
    return {**body, **other}


class TestAccess:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "orders/W1/"),
            ("PUT", "orders/W1/"),
            ("GET", "returns/"),
            ("POST", "returns/"),
            ("GET", "returns/R-1/"),
            ("POST", "returns/R-1/inspect/"),
            ("POST", "returns/R-1/reject/"),
            ("POST", "returns/R-1/withdraw/"),
            ("POST", "returns/R-1/approve/"),
            ("GET", "payments/"),
            ("GET", "payments/1/"),
            ("POST", "payments/1/query/"),
            ("GET", "mismatches/"),
            ("POST", "mismatches/1/resolve/"),
            ("GET", "no/such/address/"),
        ],
    )
    def test_nobody_gets_in_without_a_token(self, method: str, path: str) -> None:
        answer = Api(None).send(method, path, b"{}")
        assert (answer.status, answer.code) == (401, "not_authenticated")
        assert answer.headers["WWW-Authenticate"] == "Token"

    def test_an_unknown_token_is_refused(self) -> None:
        stranger = Api(None)
        stranger._client.credentials(HTTP_AUTHORIZATION="Token 0123456789")
        answer = stranger.get("returns/")
        assert (answer.status, answer.code) == (401, "authentication_failed")
        assert answer.headers["WWW-Authenticate"] == "Token"

    @pytest.mark.parametrize("path", ["orders/W1/", "returns/", "returns/R-1/"])
    def test_an_account_without_a_role_sees_nothing(self, path: str) -> None:
        answer = Api(factories.person("nobody")).get(path)
        assert (answer.status, answer.code) == (403, "role")

    @pytest.mark.parametrize(
        ("role", "method", "path", "verb"),
        [
            ("desk", "PUT", "orders/W1/", "confirm_order"),
            ("finance", "POST", "returns/", "take_in"),
            ("finance", "POST", "returns/R-1/inspect/", "inspect"),
            ("desk", "POST", "returns/R-1/reject/", "reject"),
            ("finance", "POST", "returns/R-1/withdraw/", "withdraw"),
        ],
    )
    def test_the_wrong_role_is_refused_before_the_body_is_read_and_on_record(
        self, role: str, method: str, path: str, verb: str
    ) -> None:
        user = factories.person("somebody", role)
        answer = Api(user).send(method, path, b'{"nonsense": 1}')
        assert (answer.status, answer.code) == (403, "role")
        assert RefusedAttempt.objects.get(by=user).verb == verb

    def test_an_address_that_means_nothing_is_answered_in_json(self, desk: Api) -> None:
        answer = desk.get("no/such/address/")
        assert (answer.status, answer.code) == (404, "not_found")


class TestOrders:
    def test_an_order_is_created_once_and_then_stands(self, shop: Api) -> None:
        first, again = shop.put("orders/W100/", ORDER), shop.put("orders/W100/", ORDER)
        assert (first.status, again.status) == (201, 200)
        assert first.body == again.body

    def test_an_order_says_what_each_unit_is_worth_and_who_claims_it(
        self, shop: Api, desk: Api
    ) -> None:
        shop.put("orders/W100/", ORDER)
        taken = desk.post("returns/", message(Order.objects.get()))
        body = desk.get("orders/W100/").body
        shirt = body["lines"][0]
        assert (shirt["total"], shirt["unit_price"], shirt["tax"]) == ("59.85", "30.00", "4.85")
        assert [unit["value"] for unit in shirt["units"]] == ["29.93", "29.92"]
        holder, nobody = (unit["claimed_by"] for unit in shirt["units"])
        assert nobody is None
        assert holder["operation"] == taken.body["operation"]
        assert (holder["state"], holder["channel"]) == ("received", "counter")

    def test_balances_are_told_per_order_and_per_tender(self) -> None:
        order = OrderFactory.create(tenders=[factories.card(6000), factories.cash(4000)])
        factories.reserved(order, amount_minor=7000)
        body = Api(factories.finance()).get(f"orders/{order.number}/").body
        assert body["balance"] == _balance("100.00", "70.00", "0.00", "30.00")
        assert [tender["balance"] for tender in body["tenders"]] == [
            _balance("60.00", "60.00", "0.00", "0.00"),
            _balance("40.00", "10.00", "0.00", "30.00"),
        ]

    @pytest.mark.parametrize(
        ("currency", "minor", "text"), [("JPY", 5800, "5800"), ("KWD", 18_600, "18.600")]
    )
    def test_amounts_have_the_decimals_of_their_currency(
        self, desk: Api, currency: str, minor: int, text: str
    ) -> None:
        order = OrderFactory.create(currency=currency, lines=[factories.line(price_minor=minor)])
        assert desk.get(f"orders/{order.number}/").body["balance"]["captured"] == text

    def test_the_number_in_the_address_is_cleaned_like_a_scanned_one(self, shop: Api) -> None:
        shop.put("orders/W100/", ORDER)
        assert shop.get("orders/%23w100/").body["number"] == "W100"

    @pytest.mark.parametrize("number", ["W404", "%00", "a" * 500, "%F0%9F%92%B8"])
    def test_an_unknown_order_is_not_found(self, desk: Api, number: str) -> None:
        answer = desk.get(f"orders/{number}/")
        assert (answer.status, answer.code) == (404, "unknown_order")

    @pytest.mark.parametrize("number", ["%00", "a" * 65, "a,b"])
    def test_an_impossible_number_is_refused(self, shop: Api, number: str) -> None:
        answer = shop.put(f"orders/{number}/", ORDER)
        assert (answer.status, list(answer.fields)) == (400, ["number"])

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"curency": "USD"}, "curency"),
            ({"placed_at": "2026-03-15"}, "placed_at"),
            ({"shipping": 5}, "shipping"),
            ({"delivered": "yes"}, "delivered"),
            ({"lines": []}, "lines"),
            ({"tenders": ORDER["tenders"][:1]}, "tenders"),
            ({"customer": {"name": "a\x00b"}}, "customer.name"),
            ({"lines": [{**ORDER["lines"][1], "quantity": 1.0}]}, "lines.0.quantity"),
            ({"lines": [{**ORDER["lines"][1], "unit_price": "1e2"}]}, "lines.0.unit_price"),
        ],
    )
    def test_an_order_that_is_not_understood_whole_is_refused(
        self, shop: Api, change: dict[str, Any], field: str
    ) -> None:
        answer = shop.put("orders/W100/", {**ORDER, **change})
        assert (answer.status, answer.code) == (400, "invalid")
        assert field in answer.fields
        assert not Order.objects.exists()

    def test_facts_that_returns_rest_on_cannot_change(self, shop: Api, desk: Api) -> None:
        shop.put("orders/W100/", ORDER)
        desk.post("returns/", message(Order.objects.get()))
        cheaper = [{**ORDER["lines"][0], "unit_price": "25.00"}, ORDER["lines"][1]]
        tenders = [{**ORDER["tenders"][0], "amount": "50.00"}, ORDER["tenders"][1]]
        with nothing_changes():
            answer = shop.put("orders/W100/", {**ORDER, "lines": cheaper, "tenders": tenders})
        assert (answer.status, answer.code) == (409, "order_changed")
        assert answer.body["changed"] == ["line shirt", "tender card"]

    def test_a_discount_on_the_order_and_undelivered_goods_are_understood(self, shop: Api) -> None:
        body = {
            **ORDER,
            "discount": "4.85",
            "delivered": False,
            "tenders": [{**ORDER["tenders"][0], "amount": "70.00"}],
        }
        answer = shop.put("orders/W100/", body).body
        assert answer["delivered"] is False
        assert sum(float(line["order_discount"]) for line in answer["lines"]) == 4.85


def _balance(captured: str, reserved: str, refunded: str, refundable: str) -> dict[str, str]:
    return {
        "captured": captured,
        "reserved": reserved,
        "refunded": refunded,
        "refundable": refundable,
    }


class TestTakingIn:
    def test_the_first_message_opens_a_return(self, desk: Api, order: Order) -> None:
        answer = desk.post("returns/", message(order, reason="too small"))
        operation = RefundOperation.objects.get()
        body = answer.body
        assert answer.status == 201
        assert body["operation"] == str(operation.operation_key)
        assert (body["reference"], body["state"]) == (operation.reference, "received")
        assert (body["joined"], body["order"]) == (False, order.number)
        assert (body["worth"], body["amount"], body["refunded"]) == ("100.00", None, "0.00")
        assert body["taken_in"]["by"] == "desk"
        assert body["taken_in"]["channel"] == "counter"
        assert body["next_step"] == {"verb": "inspect", "text": "Inspect the goods"}
        assert body["free_units"] == {"shirt": [2, 3]}
        assert [(c["line"], c["unit"], c["amount"]) for c in body["claims"]] == [
            ("shirt", 1, "100.00")
        ]

    def test_the_same_goods_through_another_channel_join(
        self, desk: Api, shop: Api, order: Order
    ) -> None:
        first = desk.post("returns/", message(order))
        second = shop.post("returns/", message(order, channel="online"))
        assert second.status == 200
        assert second.body["joined"] is True
        assert second.body["operation"] == first.body["operation"]
        assert second.body["taken_in"]["channel"] == "counter"
        assert RefundOperation.objects.count() == 1

    def test_the_same_message_gets_its_first_answer_again(self, desk: Api, order: Order) -> None:
        first = desk.post("returns/", message(order))
        with nothing_changes():
            again = desk.post("returns/", message(order))
        assert (again.status, again.body) == (200, first.body)

    def test_the_same_message_id_with_other_content_is_refused(
        self, desk: Api, order: Order
    ) -> None:
        desk.post("returns/", message(order))
        with nothing_changes():
            answer = desk.post("returns/", message(order, reason="another"))
        assert (answer.status, answer.code) == (409, "message_changed")

    def test_an_additional_unit_is_another_return(self, desk: Api, order: Order) -> None:
        desk.post("returns/", message(order))
        answer = desk.post("returns/", message(order, message_id="m-2", additional=True))
        assert answer.status == 201
        assert answer.body["free_units"] == {"shirt": [3]}

    def test_overlapping_goods_are_a_conflict_that_names_the_return(
        self, desk: Api, order: Order
    ) -> None:
        first = desk.post("returns/", message(order)).body
        both = [{"line": "shirt", "units": [1, 2]}]
        with nothing_changes():
            answer = desk.post("returns/", message(order, message_id="m-2", items=both))
        assert (answer.status, answer.code) == (409, "units_claimed")
        (conflict,) = answer.body["conflicts"]
        assert (conflict["line"], conflict["unit"]) == ("shirt", 1)
        assert (conflict["operation"], conflict["reference"]) == (
            first["operation"],
            first["reference"],
        )

    def test_shipping_and_goodwill_need_no_goods(self, desk: Api, order: Order) -> None:
        goodwill = {"case": "case-1", "amount": "7.50"}
        body = message(order, items=[], shipping=True, goodwill=goodwill)
        answer = desk.post("returns/", body)
        assert (answer.status, answer.body["worth"]) == (201, "12.50")

    def test_an_unknown_order_is_not_found(self, desk: Api, order: Order) -> None:
        answer = desk.post("returns/", message(order, order="W404"))
        assert (answer.status, answer.code) == (404, "unknown_order")

    def test_an_undelivered_order_has_nothing_to_give_back(self, desk: Api) -> None:
        answer = desk.post("returns/", message(OrderFactory.create(delivered=False)))
        assert (answer.status, answer.code) == (409, "nothing_refundable")

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"mesage_id": "m-2"}, "mesage_id"),
            ({"message_id": None}, "message_id"),
            ({"message_id": ""}, "message_id"),
            ({"message_id": 7}, "message_id"),
            ({"message_id": "m" * 201}, "message_id"),
            ({"message_id": "m\x00"}, "message_id"),
            ({"channel": "pigeon"}, "channel"),
            ({"channel": ["counter"]}, "channel"),
            ({"additional": "yes"}, "additional"),
            ({"shipping": 1}, "shipping"),
            ({"items": {}}, "items"),
            ({"items": []}, "items"),
            ({"items": ["shirt"]}, "items.0"),
            ({"items": [{"line": "shirt"}]}, "items"),
            ({"items": [{"line": "no such line", "quantity": 1}]}, "items"),
            ({"items": [{"line": "shirt", "quantity": 4}]}, "items"),
            ({"items": [{"line": "shirt", "quantity": 1, "units": [1]}]}, "items"),
            ({"items": [{"line": "shirt", "quantity": "1"}]}, "items.0.quantity"),
            ({"items": [{"line": "shirt", "quantity": 1.0}]}, "items.0.quantity"),
            ({"items": [{"line": "shirt", "quantity": True}]}, "items.0.quantity"),
            ({"items": [{"line": "shirt", "quantity": 0}]}, "items.0.quantity"),
            ({"items": [{"line": "shirt", "quantity": -1}]}, "items.0.quantity"),
            ({"items": [{"line": "shirt", "quantity": 10**30}]}, "items"),
            ({"items": [{"line": "shirt", "units": [10**30]}]}, "items"),
            ({"items": [{"line": "shirt", "units": [2, 2]}]}, "items"),
            ({"items": [{"line": "shirt", "quantty": 1}]}, "items.0.quantty"),
            ({"goodwill": {"case": "c", "amount": 5}}, "goodwill.amount"),
            ({"goodwill": {"case": "c", "amount": "-5"}}, "goodwill"),
            ({"goodwill": {"case": "c", "amount": "0"}}, "goodwill"),
            ({"goodwill": {"case": "c"}}, "goodwill.amount"),
            ({"reason": None}, "reason"),
            ({"customer_text": "a\x00b"}, "customer_text"),
        ],
    )
    def test_a_message_that_is_not_understood_whole_is_refused(
        self, desk: Api, order: Order, change: dict[str, Any], field: str
    ) -> None:
        with nothing_changes():
            answer = desk.post("returns/", message(order, **change))
        assert (answer.status, answer.code) == (400, "invalid")
        assert field in answer.fields

    def test_customer_text_is_kept_to_the_letter(self, desk: Api, order: Order) -> None:
        text = "  Refund me \u202e 1000 USD!\n\tIgnore previous instructions. \U0001f4b8 "
        key = desk.post("returns/", message(order, customer_text=text)).body["operation"]
        (kept,) = desk.get(f"returns/{key}/").body["messages"]
        assert kept["customer_text"] == text


class TestBodies:
    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"{",
            b"nonsense",
            b'{"channel": NaN}',
            b'{"channel": Infinity}',
            b'{"order": "W1", "order": "W2"}',
            b'{"order": "\\ud800"}',
            b'{"\\udfff": 1}',
            b'{"order": "\xff"}',
            b"[" * 200_000,
            b'{"items": ' + b"9" * 5_000 + b"}",
        ],
        ids=lambda raw: repr(raw[:20]),
    )
    def test_what_is_no_json_is_refused(self, desk: Api, raw: bytes) -> None:
        with nothing_changes():
            answer = desk.send("POST", "returns/", raw)
        assert answer.status == 400
        assert answer.code == ("parse_error" if raw else "invalid")

    @pytest.mark.parametrize("raw", [b"[]", b"null", b'"text"', b"1", b"true", b"[{}]"])
    def test_a_body_is_an_object(self, desk: Api, raw: bytes) -> None:
        answer = desk.send("POST", "returns/", raw)
        assert (answer.status, answer.code) == (400, "invalid")
        assert list(answer.fields) == ["body"]

    def test_a_body_has_a_bound(self, desk: Api) -> None:
        answer = desk.send("POST", "returns/", json.dumps({"reason": "x" * 3_000_000}).encode())
        assert (answer.status, answer.code) == (413, "too_large")

    def test_forms_are_not_read(self, desk: Api) -> None:
        answer = desk.send("POST", "returns/", b"order=W1", "application/x-www-form-urlencoded")
        assert (answer.status, answer.code) == (415, "unsupported_media_type")

    def test_another_method_is_refused_in_json(self, desk: Api) -> None:
        answer = desk.send("DELETE", "orders/W1/", b"")
        assert (answer.status, answer.code) == (405, "method_not_allowed")


class TestReading:
    def test_a_return_is_found_by_key_and_by_reference(self, desk: Api) -> None:
        operation = factories.received()
        by_key = desk.get(f"returns/{operation.operation_key}/")
        by_reference = desk.get(f"returns/{operation.reference.lower()}/")
        assert by_key.status == 200
        assert by_key.body == by_reference.body

    @pytest.mark.parametrize(
        "name",
        [
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "no-key",
            "R-999999999",
            "R-" + "9" * 30,
            "R-",
            "%00",
            "R-%D9%A1",
        ],
    )
    @pytest.mark.parametrize(
        ("method", "verb"), [("GET", ""), ("POST", "inspect/"), ("POST", "withdraw/")]
    )
    def test_an_unknown_return_is_not_found(
        self, desk: Api, name: str, method: str, verb: str
    ) -> None:
        answer = desk.send(method, f"returns/{name}/{verb}", b"{}")
        assert (answer.status, answer.code) == (404, "unknown_return")

    def test_a_return_tells_everything_from_message_to_payment(self, desk: Api) -> None:
        operation = factories.reserved()
        body = desk.get(f"returns/{operation.reference}/").body
        assert body["state"] == "reserved"
        assert (body["amount"], body["refunded"]) == ("100.00", "0.00")
        assert [entry["by"] for entry in body["messages"]] == ["desk"]
        assert body["inspection"]["by"] == "desk"
        assert [claim["finding"]["accepted"] for claim in body["claims"]] == [True]
        assert [(a["by"], a["amount"]) for a in body["approvals"]] == [("manager", "100.00")]
        (payment,) = body["payments"]
        assert (payment["state"], payment["amount"]) == ("pending", "100.00")
        assert payment["key"] == str(operation.payments.get().wire_key)
        assert body["posting"] is None
        assert [(e["verb"], e["by"]) for e in body["history"]] == [
            ("take_in", "desk"),
            ("inspect", "desk"),
            ("approve", "manager"),
            ("reserve", "manager"),
        ]

    def test_history_tells_amounts_in_major_units(self, desk: Api) -> None:
        operation = factories.reserved()
        text = json.dumps(desk.get(f"returns/{operation.reference}/").body)
        assert "_minor" not in text
        assert '"tenders": {"card": "100.00"}' in text

    def test_nothing_says_refunded_before_the_money_is_confirmed(self, desk: Api) -> None:
        operation = factories.reserved()
        body = desk.get(f"returns/{operation.reference}/").body
        assert body.pop("refunded") == "0.00"
        assert "refunded" not in json.dumps(body).lower()

    def test_a_payment_by_hand_is_told_as_confirmed_and_booked_money(self, desk: Api) -> None:
        order = OrderFactory.create(tenders=[factories.cash(10_000)])
        body = desk.get(f"returns/{factories.paid(order).reference}/").body
        assert (body["state"], body["refunded"]) == ("paid", "100.00")
        assert [payment["state_text"] for payment in body["payments"]] == ["paid"]


class TestLists:
    def test_returns_are_listed_oldest_first_in_pages(self, desk: Api) -> None:
        wanted = [factories.received().reference for _ in range(5)]
        first = desk.get("returns/?page_size=2").body
        second = desk.get(first["next"]).body
        third = desk.get(second["next"]).body
        assert (first["previous"], third["next"]) == (None, None)
        seen = [[row["reference"] for row in page["results"]] for page in (first, second, third)]
        assert seen == [wanted[:2], wanted[2:4], wanted[4:]]
        assert desk.get(third["previous"]).body["results"] == second["results"]

    def test_a_return_that_changes_between_pages_is_neither_skipped_nor_repeated(
        self, desk: Api, manager: Api
    ) -> None:
        references = [factories.received().reference for _ in range(4)]
        first = desk.get("returns/", page_size="2").body
        manager.post(f"returns/{references[0]}/reject/", {"reason": "worn"})
        second = desk.get(first["next"]).body
        rows = [row["reference"] for row in (*first["results"], *second["results"])]
        assert rows == references

    def test_filters_narrow_the_list(self, desk: Api) -> None:
        first, second = factories.received(), factories.inspected()

        def listed(**query: str) -> list[str]:
            rows = desk.get("returns/", **query).body["results"]
            return [row["reference"] for row in rows]

        assert listed(state="inspected") == [second.reference]
        assert listed(order=first.order.number.lower()) == [first.reference]
        assert listed(order="W404") == []
        since = second.state_changed_at.isoformat()
        assert listed(updated_since=since) == [second.reference]
        assert listed(updated_since="2099-01-01T00:00:00Z") == []
        assert listed(state="", order="", updated_since="") == [first.reference, second.reference]

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("state=lost", "state"),
            ("stat=received", "stat"),
            ("updated_since=yesterday", "updated_since"),
            ("order=%00", "order"),
            ("cursor=nonsense", "cursor"),
            ("cursor=cD1ub25zZW5zZQ==", "cursor"),
            ("cursor=cD0=", "cursor"),
        ],
    )
    def test_a_filter_that_is_not_understood_is_refused(
        self, desk: Api, query: str, field: str
    ) -> None:
        answer = desk.get(f"returns/?{query}")
        assert (answer.status, list(answer.fields)) == (400, [field])

    def test_a_list_costs_the_same_however_long_it_is(self, desk: Api) -> None:
        def statements() -> int:
            with CaptureQueriesContext(
                connection,
            ) as captured:
                desk.get("returns/")
            return len(captured)

        factories.received()
        one = statements()
        for _ in range(4):
            factories.inspected()
        assert statements() == one

    def test_a_return_costs_the_same_however_much_there_is_to_tell(self, desk: Api) -> None:
        def statements(reference: str) -> int:
            with CaptureQueriesContext(connection) as captured:
                desk.get(f"returns/{reference}/")
            return len(captured)

        one = factories.reserved()
        order = OrderFactory.create(
            lines=[factories.line(quantity=5), factories.line("mug", quantity=4)],
            tenders=[factories.card(30_000), factories.cash(60_000)],
        )
        units = [{"line": "shirt", "quantity": 4}, {"line": "mug", "quantity": 4}]
        for number in range(3):
            desk.post("returns/", message(order, message_id=f"many-{number}", items=units))
        many = RefundOperation.objects.get(order=order)
        goods = [{"line": f.line, "unit": f.unit} for f in factories.units(many)]
        desk.post(f"returns/{many.reference}/inspect/", {"accepted": goods})
        factories.approved_by(factories.second_manager(), factories.fresh(many))
        assert statements(many.reference) == statements(one.reference)

    def test_an_order_costs_the_same_however_large_it_is(self, desk: Api) -> None:
        def statements(order: Order) -> int:
            with CaptureQueriesContext(connection) as captured:
                desk.get(f"orders/{order.number}/")
            return len(captured)

        small = OrderFactory.create()
        lines = [factories.line(f"line-{n}", quantity=3) for n in range(5)]
        large = OrderFactory.create(
            lines=lines, tenders=[factories.card(60_000), factories.cash(90_000)]
        )
        for n in range(5):
            items = [{"line": f"line-{n}", "quantity": 2}]
            desk.post("returns/", message(large, message_id=f"m-{n}", items=items))
        assert statements(large) == statements(small)


class TestInspecting:
    def test_where_nothing_is_left_to_pay_it_is_rejected_next(self, desk: Api) -> None:
        operation = factories.inspected(rejected=[UnitFound("shirt", 1)])
        assert desk.get(f"returns/{operation}/").body["next_step"] == {
            "verb": "reject",
            "text": "Nothing is left to pay back: reject it or withdraw it",
        }

    def test_findings_are_recorded_and_rejected_units_freed(self, desk: Api, order: Order) -> None:
        items = [{"line": "shirt", "quantity": 2}]
        key = desk.post("returns/", message(order, items=items)).body["operation"]
        good = {"line": "shirt", "unit": 1, "condition": "as new", "restock": True}
        bad = {"line": "shirt", "unit": 2, "condition": "torn"}
        body = {"accepted": [good], "rejected": [bad], "note": "one torn"}
        answer = desk.post(f"returns/{key}/inspect/", body)
        assert answer.status == 200
        assert (answer.body["state"], answer.body["worth"]) == ("inspected", "100.00")
        assert answer.body["next_step"]["verb"] == "approve"
        findings = [(c["live"], c["finding"]) for c in answer.body["claims"]]
        assert findings == [
            (True, {"accepted": True, "condition": "as new", "restock": True}),
            (False, {"accepted": False, "condition": "torn", "restock": False}),
        ]
        with nothing_changes():
            again = desk.post(f"returns/{key}/inspect/", body)
        assert (again.status, again.body) == (200, answer.body)

    def test_a_return_without_goods_takes_empty_lists(self, desk: Api, order: Order) -> None:
        key = desk.post("returns/", message(order, items=[], shipping=True)).body["operation"]
        answer = desk.post(f"returns/{key}/inspect/", {"accepted": [], "rejected": []})
        assert (answer.status, answer.body["state"]) == (200, "inspected")

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "accepted"),
            ({"accepted": [{"line": "shirt", "unit": 9}]}, "accepted"),
            ({"accepted": [{"line": "shirt", "unit": "1"}]}, "accepted.0.unit"),
            ({"accepted": [{"line": "shirt", "unit": 1, "restok": True}]}, "accepted.0.restok"),
            ({"accepted": [{"line": "shirt", "unit": 1, "restock": 1}]}, "accepted.0.restock"),
            ({"acepted": []}, "acepted"),
            ({"accepted": [], "version": "1"}, "version"),
            ({"accepted": [], "version": 10**30}, "version"),
        ],
    )
    def test_findings_that_do_not_fit_are_refused(
        self, desk: Api, body: dict[str, Any], field: str
    ) -> None:
        operation = factories.received()
        with nothing_changes():
            answer = desk.post(f"returns/{operation.reference}/inspect/", body)
        assert (answer.status, answer.code) == (400, "invalid")
        assert field in answer.fields

    def test_an_older_version_is_refused_with_the_present_one(self, desk: Api) -> None:
        operation = factories.received()
        goods = [{"line": "shirt", "unit": 1}]
        body = {"accepted": goods, "version": operation.version + 1}
        with nothing_changes():
            answer = desk.post(f"returns/{operation.reference}/inspect/", body)
        assert (answer.status, answer.code) == (409, "stale")
        assert answer.body["version"] == operation.version

    def test_only_a_received_return_is_inspected(self, desk: Api) -> None:
        operation = factories.inspected()
        body = {"accepted": [{"line": "shirt", "unit": 1, "condition": "other"}]}
        with nothing_changes():
            answer = desk.post(f"returns/{operation.reference}/inspect/", body)
        assert (answer.status, answer.code) == (409, "wrong_state")
        assert answer.body["state"] == "inspected"


class TestClosing:
    def test_a_manager_rejects_with_a_reason_and_once(self, manager: Api) -> None:
        reference = factories.received().reference
        answer = manager.post(f"returns/{reference}/reject/", {"reason": "worn"})
        assert (answer.status, answer.body["state"]) == (200, "rejected")
        assert [claim["live"] for claim in answer.body["claims"]] == [False]
        with nothing_changes():
            again = manager.post(f"returns/{reference}/reject/", {"reason": "worn"})
        assert (again.status, again.body) == (200, answer.body)

    @pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "  "}, {"reason": 5}])
    def test_a_rejection_needs_a_reason(self, manager: Api, body: dict[str, Any]) -> None:
        reference = factories.received().reference
        with nothing_changes():
            answer = manager.post(f"returns/{reference}/reject/", body)
        assert (answer.status, list(answer.fields)) == (400, ["reason"])

    def test_nobody_rejects_what_they_took_in(self) -> None:
        both = factories.person("both", "desk", "manager")
        reference = factories.received(by=both).reference
        with nothing_changes():
            answer = Api(both).post(f"returns/{reference}/reject/", {"reason": "worn"})
        assert (answer.status, answer.code) == (403, "own_intake")

    def test_a_withdrawal_needs_no_body_and_frees_the_goods(self, desk: Api, order: Order) -> None:
        first = desk.post("returns/", message(order)).body
        answer = desk.send("POST", f"returns/{first['operation']}/withdraw/", b"")
        assert (answer.status, answer.body["state"]) == (200, "cancelled")
        assert answer.body["worth"] == "100.00"
        second = desk.post("returns/", message(order, message_id="m-2"))
        assert second.status == 201
        assert second.body["operation"] != first["operation"]

    def test_reserved_money_cannot_be_withdrawn(self, desk: Api) -> None:
        reference = factories.reserved().reference
        with nothing_changes():
            answer = desk.post(f"returns/{reference}/withdraw/", {"reason": "kept it"})
        assert (answer.status, answer.code) == (409, "wrong_state")
