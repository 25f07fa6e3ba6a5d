"""Finance empties the queue of mismatches in a real browser: by keyboard, by mouse, with scripts
and without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from reconciliation.mismatches import open_new
from reconciliation.models import Mismatch
from tests import factories
from tests.factories import finance, person
from tests.reconciliation.items import amounts_differ, payment_without_operation
from tests.reconciliation.test_mismatches import strange_event

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Browse = Callable[..., Page]
QUEUE = "/admin/reconciliation/mismatch/"
LARGE = 100_001


def in_the_admin(user: User) -> User:
    user.is_staff = True
    user.save()
    return user


def row(page: Page, place: int) -> Locator:
    """The link that opens an item of the list."""
    return page.locator("#result_list tbody th a").nth(place)


def close_as_accepted(page: Page, reason: str) -> None:
    """By keyboard from the moment the page is open: choose, say why, send."""
    expect(page.get_by_label("link to an operation")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type(reason)
    here = page.url
    page.keyboard.press("Enter")
    expect(page).not_to_have_url(here)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_finance_empties_a_queue_of_twenty(browse: Browse, scripts: bool) -> None:
    amounts_differ([*range(1, 17), -5, -6])
    payment_without_operation()
    strange_event()
    open_new()
    assert Mismatch.objects.filter(status="open").count() == 20
    page = browse(in_the_admin(finance()), java_script_enabled=scripts)
    page.goto(QUEUE)

    # Eight of them together, with the mouse.
    for box in page.locator(".action-select").all()[-8:]:
        box.check()
    page.locator("select[name=action]").select_option("accept")
    page.locator("button[name=index]").first.click()
    page.get_by_label("Reason").fill("mere rounding, agreed")
    page.get_by_role("button", name="Accept these 8 differences").click()
    expect(page.get_by_text("done", exact=True)).to_have_count(8)
    page.keyboard.press("Enter")

    # The others one after the other, without touching the mouse.
    row(page, 0).focus()
    page.keyboard.press("Enter")
    for left in range(12, 0, -1):
        close_as_accepted(page, f"checked with the bank, {left} left")
    expect(page.get_by_text("No mismatch is left for this filter.")).to_be_visible()
    closed = Mismatch.objects.filter(status="resolved", resolved_by=finance())
    assert closed.count() == 20


def test_the_keys_of_the_list_work_on_its_rows_only(browse: Browse) -> None:
    amounts_differ([3, 2, 1])
    page = browse(in_the_admin(finance()))
    page.goto(QUEUE)
    expect(row(page, 0)).to_be_focused()
    page.keyboard.press("j")
    expect(row(page, 1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("x")
    expect(page.locator(".action-select").nth(2)).to_be_checked()
    page.keyboard.press("k")
    expect(row(page, 1)).to_be_focused()
    page.locator("#searchbar").focus()
    page.keyboard.type("jkx")
    expect(page.locator("#searchbar")).to_have_value("jkx")
    expect(page.locator(".action-select:checked")).to_have_count(1)


def test_a_second_person_confirms_with_one_key(browse: Browse) -> None:
    item = payment_without_operation(LARGE)
    first = browse(in_the_admin(finance()))
    first.goto(f"{QUEUE}{item.pk}/change/")
    close_as_accepted(first, "known to the bank")
    expect(first.get_by_role("status")).to_contain_text("somebody else must confirm it")
    other = browse(in_the_admin(person("second-finance", "finance")))
    other.goto(f"{QUEUE}{item.pk}/change/")
    expect(other.get_by_role("button", name="Confirm: accept the difference")).to_be_focused()
    other.keyboard.press("Enter")
    expect(other.get_by_role("status")).to_contain_text("Closed: accept the difference.")
    assert Mismatch.objects.get().status == "resolved"


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_of_the_queue_is_wider_than_the_window(browse: Browse, width: int) -> None:
    factories.received()
    item = payment_without_operation(refund="re_" + "x" * 60)
    page = browse(in_the_admin(finance()), viewport={"width": width, "height": 800})
    for path in (QUEUE, f"{QUEUE}{item.pk}/change/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
