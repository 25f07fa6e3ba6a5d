"""The desk, orders and returns as a person sees them, without JavaScript."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from returns import scanning
from returns.forms import compressed, expanded
from returns.inspection import UnitFound
from returns.models import IntakeMessage, Order, RefundOperation
from returns.return_request import Item
from returns.states import OperationState
from tests import factories
from tests.factories import OrderFactory
from tests.oracle import nothing_changes
from tests.pages import (
    MOST_QUERIES,
    assert_constant,
    form_on,
    queries_of,
    signed_in,
    text_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Client:
    return signed_in(factories.desk())


@pytest.fixture
def manager() -> Client:
    return signed_in(factories.manager())


@pytest.fixture
def order() -> Order:
    """Two shirts and a mug, with shipping."""
    lines = [factories.line("shirt", 3_000, 2), factories.line("mug", 1_000)]
    return OrderFactory.create(
        lines=lines,
        shipping_minor=500,
        customer_name="Ada Example",
        customer_email="ada@example.com",
    )


def take_in(client: Client, order: Order, *units: str, **other: Any) -> Any:
    """Open the order, tick the boxes and send the form; the page it leads to."""
    page = client.get(f"/orders/{order.number}/")
    fields = form_on(page, f"/orders/{order.number}/take-in/")
    return client.post(
        f"/orders/{order.number}/take-in/", {**fields, "unit": units, **other}, follow=True
    )


def inspection_of(client: Client, operation: RefundOperation, **other: Any) -> dict[str, Any]:
    """The inspection form with every unit accepted, or with what is given instead."""
    fields = form_on(client.get(f"/returns/{operation}/"), f"/returns/{operation}/inspect/")
    accepted = {f"unit-{claim.pk}-verdict": "accepted" for claim in operation.claims.all()}
    return {**fields, **accepted, **other}


@pytest.mark.parametrize(
    "path", ["/desk/", "/orders/W1/", "/returns/", "/returns/R-1/", "/approvals/", "/payments/"]
)
def test_nobody_sees_a_page_without_signing_in(client: Client, path: str) -> None:
    page = client.get(path)
    assert (page.status_code, page["Location"]) == (302, f"/sign-in/?next={path}")


def test_signing_in_leads_to_the_desk_and_out_again(client: Client) -> None:
    user = factories.desk()
    user.set_password("correct horse")
    user.save()
    wrong = client.post("/sign-in/", {"username": "desk", "password": "wrong"})
    assert "notice-bad" in wrong.content.decode()
    page = client.post("/sign-in/", {"username": "desk", "password": "correct horse"}, follow=True)
    assert page.redirect_chain[-1][0] == "/desk/"
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"


def test_the_front_door_is_the_desk(desk: Client) -> None:
    assert desk.get("/")["Location"] == "/desk/"


def test_the_theme_is_kept_and_set_by_the_server(desk: Client) -> None:
    assert 'data-bs-theme="auto"' in desk.get("/desk/").content.decode()
    answer = desk.post("/theme/", {"theme": "dark", "next": "/returns/"})
    assert answer["Location"] == "/returns/"
    assert 'data-bs-theme="dark"' in desk.get("/desk/").content.decode()
    assert desk.post("/theme/", {"theme": "x", "next": "//evil.example/"})["Location"] == "/"


# What the scan box understands


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("]C1R-2841", "R-2841"),
        ("  w 261 1340\t\r\n", "w2611340"),
        ("R\N{EN DASH}2841", "R-2841"),
        ("R\N{NON-BREAKING HYPHEN}2841\N{ZERO WIDTH SPACE}", "R-2841"),
        ("\x02W1\x03", "W1"),
    ],
)
def test_what_scanners_and_copying_add_is_stripped(typed: str, code: str) -> None:
    assert scanning.clean(typed).code == code


def test_one_hit_opens(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    payment = order.tenders.get().payment
    for typed, url in {
        str(operation): f"/returns/{operation}/",
        f"r{operation.pk}": f"/returns/{operation}/",
        f" #{order.number.lower()} ": f"/orders/{order.number}/",
        payment: f"/orders/{order.number}/",
        "sku-shirt": f"/returns/{operation}/",
        "ADA@example.com": f"/orders/{order.number}/",
        "ada  exam": f"/orders/{order.number}/",
    }.items():
        assert desk.get("/desk/", {"q": typed})["Location"] == url, typed


def test_several_hits_are_listed(desk: Client, order: Order) -> None:
    factories.received(order)
    factories.received(OrderFactory.create(lines=[factories.line("shirt")]))
    page = desk.get("/desk/", {"q": "SKU-shirt"})
    assert "2 hits for “SKU-shirt”" in text_of(page)


def test_nothing_found_says_so_and_what_next(desk: Client) -> None:
    page = desk.get("/desk/", {"q": "<b>W99"})
    assert "Nothing for “&lt;b&gt;W99”. Check the number" in text_of(page)
    assert 'value="&lt;b&gt;W99"' in page.content.decode()


@pytest.mark.parametrize("typed", ["", "\x00", "R-" + "9" * 30, "'; --", "%", "ÿ" * 400])
def test_no_text_breaks_the_scan_box(desk: Client, typed: str) -> None:
    assert desk.get("/desk/", {"q": typed}).status_code == 200


# Taking in


def test_ticked_units_are_taken_in(desk: Client, order: Order) -> None:
    page = take_in(desk, order, "shirt:2", "mug:1", shipping="on", reason="too small")
    operation = RefundOperation.objects.get()
    assert page.redirect_chain[-1][0] == f"/returns/{operation}/"
    subjects = set(operation.claims.values_list("subject", flat=True))
    assert subjects == {"line:shirt/unit:2", "line:mug/unit:1", "shipping"}
    assert (operation.taken_in_channel, operation.messages.get().reason) == ("counter", "too small")


def test_the_same_form_sent_twice_lands_on_the_same_return(desk: Client, order: Order) -> None:
    action = f"/orders/{order.number}/take-in/"
    fields = form_on(desk.get(f"/orders/{order.number}/"), action) | {"unit": ["shirt:1"]}
    first = desk.post(action, fields)
    second = desk.post(action, fields)
    assert first["Location"] == second["Location"]
    assert (RefundOperation.objects.count(), IntakeMessage.objects.count()) == (1, 1)


def test_a_form_gone_back_to_and_changed_is_not_a_second_return(desk: Client, order: Order) -> None:
    action = f"/orders/{order.number}/take-in/"
    fields = form_on(desk.get(f"/orders/{order.number}/"), action)
    desk.post(action, fields | {"unit": ["shirt:1"]})
    page = desk.post(action, fields | {"unit": ["shirt:2"]})
    operation = RefundOperation.objects.get()
    assert page.status_code == 409
    assert f"Open {operation}" in text_of(page)
    # The form on this page is a message of its own.
    again = form_on(page, action) | {"unit": ["shirt:2"]}
    assert desk.post(action, again).status_code == 302
    assert RefundOperation.objects.count() == 2


def test_exactly_the_same_goods_join(desk: Client, order: Order) -> None:
    online = factories.received(
        order,
        by=factories.person("online", "desk"),
        channel="online",
        items=(Item("shirt", units=(1,)),),
    )
    order_page = desk.get(f"/orders/{order.number}/")
    assert f"{online}" in text_of(order_page)
    assert "online, online" in text_of(order_page)
    page = take_in(desk, order, "shirt:1")
    assert page.redirect_chain[-1][0] == f"/returns/{online}/"
    assert "already covers exactly these goods" in text_of(page)


def test_overlapping_goods_are_a_conflict_with_two_ways_out(desk: Client, order: Order) -> None:
    first = factories.received(order, items=(Item("shirt", units=(1,)),))
    with nothing_changes():
        page = take_in(desk, order, "shirt:1", "shirt:2", customer_text="They shrank")
    assert page.status_code == 409
    text = text_of(page)
    assert f"Join {first}" in text
    assert "choose a free unit below" in text
    assert "They shrank" in page.content.decode()
    joined = desk.post(
        f"/orders/{order.number}/take-in/",
        {"token": "0d9af3a2-6d0d-4b39-bb77-6d39a6a40ba6", "unit": ["shirt:1"], "reason": ""},
        follow=True,
    )
    assert joined.redirect_chain[-1][0] == f"/returns/{first}/"


def test_an_empty_form_is_refused_in_place(desk: Client, order: Order) -> None:
    page = take_in(desk, order, reason="kept words")
    assert page.status_code == 422
    assert "Choose what the customer brought back." in text_of(page)
    assert "kept words" in page.content.decode()


@pytest.mark.parametrize("box", ["shirt:9", "nothing:1", "shirt:0", "x", "shirt:" + "1" * 6])
def test_a_unit_that_was_never_sold_is_refused(desk: Client, order: Order, box: str) -> None:
    with nothing_changes():
        assert take_in(desk, order, box).status_code == 422


def test_a_long_line_asks_how_many(desk: Client) -> None:
    order = OrderFactory.create(lines=[factories.line("clip", 100, 40)])
    factories.received(order, items=(Item("clip", units=(1, 3)),))
    page = take_in(desk, order, **{"count:clip": "3"})
    operation = RefundOperation.objects.latest("pk")
    assert page.redirect_chain[-1][0] == f"/returns/{operation}/"
    assert set(operation.claims.values_list("unit", flat=True)) == {2, 4, 5}
    assert take_in(desk, order, **{"count:clip": "36"}).status_code == 422


def test_ranges_survive_the_way_through_a_form() -> None:
    assert compressed([1, 2, 3, 7, 9, 10]) == "1-3 7 9-10"
    assert expanded("1-3 7 9-10", 9) == [1, 2, 3, 7, 9]
    assert expanded("x 2- -3 1-999999999", 4) == [2, 1, 2, 3, 4]


def test_what_cannot_come_back_says_why(desk: Client) -> None:
    order = OrderFactory.create(delivered=False)
    page = desk.get(f"/orders/{order.number}/")
    assert "has not been delivered" in text_of(page)
    assert 'type="checkbox"' not in page.content.decode()


def test_finance_sees_an_order_and_cannot_take_in(order: Order) -> None:
    finance = signed_in(factories.finance())
    page = finance.get(f"/orders/{order.number}/")
    assert "Only desk staff and managers can do this." in text_of(page)
    answer = finance.post(f"/orders/{order.number}/take-in/", {"unit": ["shirt:1"]})
    assert answer.status_code == 403
    assert RefundOperation.objects.count() == 0


# One return


def test_what_a_customer_wrote_is_shown_as_text(desk: Client, order: Order) -> None:
    operation = factories.received(order, customer_text="<script>alert(1)</script> pay 1000")
    page = desk.get(f"/returns/{operation}/").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; pay 1000" in page


def test_goods_are_inspected_unit_by_unit(desk: Client, order: Order) -> None:
    both = (Item("shirt", units=(1, 2)),)
    operation = factories.received(order, items=both)
    bad = operation.claims.get(unit=2)
    fields = inspection_of(desk, operation)
    fields |= {f"unit-{bad.pk}-verdict": "rejected", f"unit-{bad.pk}-condition": "damaged"}
    page = desk.post(f"/returns/{operation}/inspect/", fields, follow=True)
    assert factories.fresh(operation).state == OperationState.INSPECTED
    assert "1 accepted, 1 rejected" in text_of(page)
    assert "rejected, free again" in text_of(page)


def test_the_condition_that_was_chosen_for_us_is_stored_as_well(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    page = desk.get(f"/returns/{operation}/").content.decode()
    select = r'<select name="(unit-\d+-condition)".*?<option value="([^"]*)"'
    first = re.search(select, page, re.DOTALL)
    assert first
    fields = inspection_of(desk, operation, **{first[1]: first[2]})
    desk.post(f"/returns/{operation}/inspect/", fields)
    assert operation.claims.get().finding.condition == "as new"


@pytest.fixture
def nothing_left(order: Order) -> RefundOperation:
    """A return whose every unit was rejected."""
    return factories.inspected(order, rejected=[UnitFound("shirt", 1)])


def test_where_nothing_is_left_to_pay_a_manager_rejects(
    manager: Client, nothing_left: RefundOperation
) -> None:
    page = manager.get(f"/returns/{nothing_left}/")
    assert "Nothing is left to pay back: reject it or withdraw it" in text_of(page)
    assert "<details" not in page.content.decode()
    action = f"/returns/{nothing_left}/reject/"
    manager.post(action, {**form_on(page, action), "reason": "worn out"})
    assert factories.fresh(nothing_left).state == OperationState.REJECTED


def test_where_nothing_is_left_to_pay_the_desk_withdraws(
    desk: Client, nothing_left: RefundOperation
) -> None:
    page = desk.get(f"/returns/{nothing_left}/")
    assert "Only managers can do this." in text_of(page)
    action = f"/returns/{nothing_left}/withdraw/"
    desk.post(action, form_on(page, action))
    assert factories.fresh(nothing_left).state == OperationState.CANCELLED


def test_goods_that_cost_nothing_are_ended_without_a_payment(manager: Client) -> None:
    lines = [factories.line(), factories.line("gift", 0)]
    order = OrderFactory.create(lines=lines)
    free = factories.inspected(order, items=(Item("gift", quantity=1),))
    text = text_of(manager.get(f"/returns/{free}/"))
    assert "Nothing that was accepted is worth money." in text
    assert "a manager rejects it, or the customer keeps the goods" in text


def test_a_unit_without_a_verdict_is_refused_and_the_note_kept(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    fields = form_on(desk.get(f"/returns/{operation}/"), f"/returns/{operation}/inspect/")
    page = desk.post(f"/returns/{operation}/inspect/", {**fields, "note": "sleeve torn"})
    assert page.status_code == 422
    assert "Accept or reject this unit." in text_of(page)
    assert form_on(page, f"/returns/{operation}/inspect/")["note"] == "sleeve torn"


def test_a_stale_form_says_who_changed_what_and_keeps_the_note(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    fields = inspection_of(desk, operation, note="my careful words")
    other = signed_in(factories.person("other-desk", "desk"))
    theirs = inspection_of(other, operation)
    assert other.post(f"/returns/{operation}/inspect/", theirs).status_code == 302
    page = desk.post(f"/returns/{operation}/inspect/", fields)
    assert page.status_code == 409
    text = text_of(page)
    assert "Inspected · other-desk" in text
    assert "received → inspected" in text
    assert "my careful words" in text
    assert f"See {operation} as it is now" in text


def test_a_kept_note_stands_in_the_form_again(manager: Client, order: Order) -> None:
    operation = factories.inspected(order)
    action = f"/returns/{operation}/reject/"
    fields = form_on(manager.get(f"/returns/{operation}/"), action)
    stale = {**fields, "version": "0", "reason": "sold as seen"}
    assert manager.post(action, stale).status_code == 409
    page = manager.get(f"/returns/{operation}/")
    assert form_on(page, action)["reason"] == "sold as seen"
    sent = form_on(page, action)
    assert manager.post(action, sent).status_code == 302
    assert factories.fresh(operation).state == OperationState.REJECTED
    assert "drafts" not in manager.session or not manager.session["drafts"]


def test_the_customer_may_keep_the_goods(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    action = f"/returns/{operation}/withdraw/"
    fields = form_on(desk.get(f"/returns/{operation}/"), action)
    page = desk.post(action, fields, follow=True)
    assert factories.fresh(operation).state == OperationState.CANCELLED
    assert "Withdrawn" in text_of(page)


def test_the_desk_cannot_reject(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    assert "Only managers can do this." in text_of(desk.get(f"/returns/{operation}/"))
    answer = desk.post(f"/returns/{operation}/reject/", {"version": 1, "reason": "no"})
    assert answer.status_code == 403
    assert "Only managers can do this. You are signed in as desk." in text_of(answer)
    assert factories.fresh(operation).state == OperationState.RECEIVED


def test_opening_a_forms_own_address_leads_back_to_its_page(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    for verb in ("inspect", "reject", "withdraw", "approve"):
        answer = desk.get(f"/returns/{operation}/{verb}/")
        assert answer["Location"] == f"/returns/{operation}/"
    assert desk.get(f"/orders/{order.number}/take-in/")["Location"] == f"/orders/{order.number}/"


def test_an_open_page_follows_until_there_is_nothing_to_follow(desk: Client) -> None:
    waiting, moving, ended = factories.inspected(), factories.reserved(), factories.received()
    assert 'id="watch"' in desk.get(f"/returns/{waiting}/").content.decode()
    action = f"/returns/{ended}/withdraw/"
    last = desk.post(action, form_on(desk.get(f"/returns/{ended}/"), action), follow=True)
    assert 'id="watch"' not in last.content.decode()
    page = desk.get(f"/returns/{moving}/").content.decode()
    found = re.search(r'hx-get="([^"]+)" hx-trigger="load delay:(\d+)ms"', page)
    assert found
    address, delay_ms = found[1].replace("&amp;", "&"), int(found[2])
    quiet = desk.get(address)
    assert "<main" not in quiet.content.decode()
    later = desk.get(address.replace("look=0", "look=9")).content.decode()
    assert int(re.search(r"delay:(\d+)ms", later)[1]) > delay_ms  # type: ignore[index]
    news = desk.get(f"/returns/{moving}/live/?seen=old&look=3")
    assert (news["HX-Retarget"], news["HX-Reselect"]) == ("#main", "#main")
    assert "<h1" in news.content.decode()


def test_the_timeline_can_show_the_money_only(desk: Client) -> None:
    operation = factories.reserved()
    text = text_of(desk.get(f"/returns/{operation}/", {"timeline": "money"}))
    assert "Money reserved" in text
    assert "Taken in (counter)" not in text


def test_names_are_found_in_any_case_and_lead_to_one_address(desk: Client, order: Order) -> None:
    operation = factories.received(order)
    assert desk.get(f"/returns/r-{operation.pk}/")["Location"] == f"/returns/{operation}/"
    lower = f"/orders/{order.number.lower()}/"
    assert desk.get(lower)["Location"] == f"/orders/{order.number}/"


@pytest.mark.parametrize("path", ["/orders/NONE/", "/returns/R-999999/", "/returns/x/", "/none/"])
def test_what_does_not_exist_says_so(desk: Client, path: str) -> None:
    page = desk.get(path)
    assert page.status_code == 404
    assert "Nothing is here" in text_of(page)


# Lists


def test_the_list_is_filtered_by_its_address(desk: Client, order: Order) -> None:
    mine, other = factories.received(order), factories.inspected()
    text = text_of(desk.get("/returns/", {"state": "inspected"}))
    assert str(other) in text
    assert str(mine) not in text
    assert str(mine) in text_of(desk.get("/returns/", {"text": "ada"}))
    assert str(mine) in text_of(desk.get("/returns/", {"text": str(mine).lower()}))
    assert "No return matches." in text_of(desk.get("/returns/", {"text": "nobody"}))


def test_the_list_goes_on_after_its_last_row(desk: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("returns.views.lists.ROWS_A_PAGE", 2)
    first, second, third = (factories.received() for _ in range(3))
    page = text_of(desk.get("/returns/"))
    assert (str(first) in page, str(second) in page, str(third) in page) == (True, True, False)
    assert str(third) in text_of(desk.get("/returns/", {"after": second.pk}))


@pytest.mark.parametrize("query", ["after=x", "state=nonsense", "text=%00", "after=" + "9" * 30])
def test_no_address_breaks_the_list(desk: Client, query: str) -> None:
    assert desk.get(f"/returns/?{query}").status_code == 200


def test_pages_take_the_same_number_of_statements_whatever_the_rows(desk: Client) -> None:
    online = factories.person("online", "desk")
    big = OrderFactory.create(lines=[factories.line(f"line-{n}", 100, 3) for n in range(20)])

    def returns(numbers: range) -> None:
        for n in numbers:
            factories.received(big, items=(Item(f"line-{n}", units=(1,)),))
            factories.received(by=online, channel="online")

    returns(range(2))
    addresses = ("/desk/", "/returns/", f"/orders/{big.number}/")
    assert_constant(desk, addresses, lambda: returns(range(2, 20)))


def test_a_return_takes_the_same_number_of_statements_whatever_its_goods(desk: Client) -> None:
    def unseen(quantity: int) -> str:
        order = OrderFactory.create(lines=[factories.line("shirt", 100, quantity)])
        items = (Item("shirt", quantity=quantity),)
        return f"/returns/{factories.reserved(order, items=items)}/"

    assert queries_of(desk, unseen(2)) == queries_of(desk, unseen(20)) <= MOST_QUERIES


def test_pages_obey_their_own_content_policy(desk: Client, manager: Client) -> None:
    operation = factories.reserved()
    for client, path in (
        (desk, "/desk/"),
        (desk, f"/orders/{operation.order.number}/"),
        (manager, f"/returns/{operation}/"),
        (manager, f"/returns/{factories.inspected()}/"),
        (manager, "/approvals/"),
        (manager, "/payments/"),
    ):
        page = client.get(path)
        text = page.content.decode()
        assert "script-src 'self'" in page["Content-Security-Policy"]
        assert not re.search(r'\sstyle="|<style|\son[a-z]+="|hx-on|<script(?![^>]*\ssrc=)', text)
        assert text.count("<h1") == 1
        assert re.search(r"<title>[^<]+ · Refund Desk</title>", text)
        assert len(re.findall("<table", text)) == len(re.findall("<caption", text))
