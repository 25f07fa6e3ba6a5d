"""From the counter to the books in a real browser, with JavaScript and without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from returns.models import IntakeMessage, Order, RefundOperation
from returns.return_request import Item
from returns.states import OperationState
from tests import factories
from tests.browser.conftest import Complaints
from tests.factories import OrderFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Browse = Callable[..., Page]


@pytest.fixture
def order() -> Order:
    lines = [factories.line("shirt", 3_000, 2), factories.line("mug", 1_000)]
    return OrderFactory.create(lines=lines, shipping_minor=500)


def scan(page: Page, code: str) -> None:
    """What a scanner does: type into the focused box and press Enter."""
    page.goto("/desk/")
    expect(page.get_by_label("Scan or type")).to_be_focused()
    page.keyboard.type(code)
    page.keyboard.press("Enter")


def take_in(page: Page, order: Order) -> RefundOperation:
    """Scan an order and take one shirt and the mug in."""
    scan(page, f"]C1{order.number}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Order {order.number}")
    page.get_by_role("checkbox", name="1 of 2").check()
    page.get_by_role("checkbox", name="1 of 1").check()
    page.get_by_label("Reason").fill("too small")
    page.get_by_role("button", name="Take in the ticked units").click()
    expect(page.get_by_role("button", name="Record the inspection")).to_be_visible()
    return RefundOperation.objects.latest("pk")


def inspect(page: Page) -> None:
    for verdict in page.get_by_label("Accept", exact=True).all():
        verdict.check()
    page.get_by_role("button", name="Record the inspection").click()
    expect(page.get_by_role("status").filter(has_text="Inspected.")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_the_desk_takes_in_and_inspects_and_a_manager_approves(
    browse: Browse, order: Order, scripts: bool
) -> None:
    desk = browse(factories.desk(), java_script_enabled=scripts)
    operation = take_in(desk, order)
    expect(desk).to_have_url(f"{desk.url.partition('/returns')[0]}/returns/{operation}/")
    inspect(desk)
    expect(desk).to_have_title(f"{operation} · inspected · Refund Desk")
    expect(desk.get_by_role("button", name="Approve")).to_be_disabled()
    expect(desk.get_by_text("Only managers can do this.").first).to_be_visible()

    manager = browse(factories.manager(), java_script_enabled=scripts)
    manager.goto("/approvals/")
    manager.get_by_role("link", name=str(operation)).click()
    manager.get_by_role("button", name="Approve USD 40.00 to Card").click()
    expect(manager.get_by_role("status").filter(has_text="Approved.")).to_be_visible()
    assert factories.fresh(operation).state == OperationState.RESERVED


def test_the_page_shows_posted_with_both_references_without_a_reload(
    browse: Browse, order: Order, run_workers: Callable[..., None]
) -> None:
    operation = factories.inspected(order)
    manager = browse(factories.manager())
    manager.goto(f"/returns/{operation}/")
    manager.get_by_role("button", name="Approve USD 30.00 to Card").click()
    expect(manager).to_have_title(f"{operation} · reserved · Refund Desk")
    manager.evaluate("window.sameDocument = true")
    run_workers()
    expect(manager).to_have_title(f"{operation} · posted · Refund Desk", timeout=15_000)
    references = (operation.payments.get().provider_refund, operation.posting.entry)
    for reference in references:
        assert reference
        expect(manager.get_by_text(reference).first).to_be_visible()
    assert manager.evaluate("window.sameDocument") is True
    expect(manager.locator("#watch")).to_have_count(0)


def test_the_desks_open_page_follows_the_manager_to_the_books(
    browse: Browse, order: Order, run_workers: Callable[..., None]
) -> None:
    operation = factories.inspected(order)
    desk = browse(factories.desk())
    desk.goto(f"/returns/{operation}/")
    desk.evaluate("window.sameDocument = true")
    factories.approved_by(factories.manager(), operation)
    run_workers()
    expect(desk).to_have_title(f"{operation} · posted · Refund Desk", timeout=20_000)
    assert desk.evaluate("window.sameDocument") is True


def test_what_is_being_written_is_not_written_over(browse: Browse, order: Order) -> None:
    operation = factories.inspected(order)
    manager = browse(factories.manager())
    manager.goto(f"/returns/{operation}/")
    note = manager.get_by_label("Note (optional)").first
    note.fill("as agreed by phone")
    factories.approved_by(factories.second_manager(), operation)
    expect(manager.get_by_text("has changed while you were writing")).to_be_visible(timeout=20_000)
    expect(note).to_have_value("as agreed by phone")
    expect(note).to_be_focused()
    manager.get_by_role("link", name="See it as it is now").click()
    expect(manager).to_have_title(f"{operation} · reserved · Refund Desk")


def test_the_browser_has_nothing_to_complain_about_while_a_manager_decides(
    browse: Browse, order: Order, complaints: Complaints
) -> None:
    complaints.expected_statuses = {409, 422}
    operation = factories.inspected(order)
    manager = browse(factories.manager())
    manager.goto(f"/returns/{operation}/")
    amount = manager.get_by_label("Amount to refund")
    amount.fill("30.01")
    expect(manager.get_by_text("At most USD 30.00: what came back is worth that.")).to_be_visible()
    expect(manager.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    amount.fill("20")
    expect(manager.get_by_role("button", name="Approve USD 20.00 to Card")).to_be_visible()
    other = factories.inspected(order, items=(Item("mug", quantity=1),))
    factories.approved_by(factories.second_manager(), other)
    manager.get_by_role("button", name="Approve USD 20.00 to Card").click()
    expect(manager.get_by_role("heading", level=1)).to_contain_text("has changed meanwhile")
    assert complaints.texts == []


def test_a_double_click_takes_in_once(browse: Browse, order: Order) -> None:
    desk = browse(factories.desk())
    desk.goto(f"/orders/{order.number}/")
    desk.get_by_role("checkbox", name="1 of 1").check()
    desk.get_by_role("button", name="Take in the ticked units").dblclick()
    expect(desk.get_by_role("button", name="Record the inspection")).to_be_visible()
    assert (RefundOperation.objects.count(), IntakeMessage.objects.count()) == (1, 1)


def test_going_back_and_sending_again_lands_on_the_same_return(
    browse: Browse, order: Order
) -> None:
    desk = browse(factories.desk(), java_script_enabled=False)
    operation = take_in(desk, order)
    desk.go_back()
    desk.get_by_role("button", name="Take in the ticked units").click()
    expect(desk.get_by_role("heading", level=1)).to_have_text(str(operation))
    assert RefundOperation.objects.count() == 1


def test_the_button_follows_the_amount_that_is_typed(browse: Browse, order: Order) -> None:
    operation = factories.inspected(order)
    manager = browse(factories.manager(), locale="en-GB")
    manager.goto(f"/returns/{operation}/")
    amount = manager.get_by_label("Amount to refund")
    amount.fill("12,5")
    expect(manager.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    amount.fill("12.5")
    manager.get_by_role("button", name="Approve USD 12.50 to Card").click()
    expect(manager).to_have_title(f"{operation} · reserved · Refund Desk")
    assert factories.fresh(operation).amount_minor == 1_250


def test_a_refused_form_stays_in_place_with_the_summary_focused(
    browse: Browse, order: Order, complaints: Complaints
) -> None:
    complaints.expected_statuses = {422}
    operation = factories.received(order)
    desk = browse(factories.desk())
    desk.goto(f"/returns/{operation}/")
    desk.get_by_label("Note (optional)").fill("sleeve torn")
    desk.get_by_role("button", name="Record the inspection").click()
    expect(desk.get_by_role("alert").filter(has_text="Not sent yet:")).to_be_focused()
    expect(desk.get_by_label("Note (optional)")).to_have_value("sleeve torn")
    expect(desk).to_have_url(f"{desk.url.partition('/returns')[0]}/returns/{operation}/")


def test_a_stale_decision_is_explained_and_the_note_survives_a_reload(
    browse: Browse, order: Order, complaints: Complaints
) -> None:
    complaints.expected_statuses = {409}
    operation = factories.inspected(order)
    manager = browse(factories.manager())
    manager.goto(f"/returns/{operation}/")
    manager.get_by_label("Note (optional)").first.fill("as agreed by phone")
    other = factories.inspected(order, items=(Item("mug", quantity=1),))
    factories.approved_by(factories.second_manager(), other)
    manager.get_by_role("button", name="Approve USD 30.00 to Card").click()
    expect(manager.get_by_role("heading", level=1)).to_have_text(
        f"{operation} has changed meanwhile"
    )
    manager.reload()
    expect(manager.get_by_label("Note (optional)").first).to_have_value("as agreed by phone")


def test_what_was_scanned_stands_selected_when_nothing_is_found(browse: Browse) -> None:
    desk = browse(factories.desk())
    scan(desk, "W404404")
    expect(desk.get_by_text("Nothing for “W404404”.")).to_be_visible()
    desk.keyboard.type("W5")
    expect(desk.get_by_label("Scan or type")).to_have_value("W5")


@pytest.mark.parametrize("path", ["/desk/", "/returns/", "/approvals/", "/payments/"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_the_window(browse: Browse, path: str, width: int) -> None:
    factories.reserved()
    factories.inspected()
    page = browse(factories.manager(), viewport={"width": width, "height": 800})
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_until_somebody_chooses(browse: Browse) -> None:
    page = browse(factories.desk(), color_scheme="dark")
    page.goto("/desk/")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="As the system has it").click()
    page.wait_for_load_state()
    assert page.evaluate(ground) != dark
    page.get_by_role("button", name="Light. Switch to dark").click()
    page.wait_for_load_state()
    assert page.evaluate(ground) == dark
