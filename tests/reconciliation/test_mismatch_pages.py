"""The queue in the admin: order and filters, many rows at once, the page of one item, export."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from payments.models import PaymentTask
from reconciliation.mismatches import open_new
from reconciliation.models import Mismatch, MismatchEvent
from reconciliation.resolving import assign, resolve
from returns import spreadsheets
from tests import factories
from tests.factories import finance, person
from tests.oracle import nothing_changes
from tests.pages import assert_constant, queries_of, text_of
from tests.pages import signed_in as session_of
from tests.past import without_triggers
from tests.reconciliation.items import amounts_differ, damaged_reference, payment_without_operation
from tests.reconciliation.test_mismatches import doubtful_payment, strange_event, stuck_posting
from tests.reconciliation.test_resolving import LARGE, second

pytestmark = pytest.mark.django_db

QUEUE = "/admin/reconciliation/mismatch/"


def signed_in(user: User) -> Client:
    """A client with the session of somebody who may use the admin at all."""
    user.is_staff = True
    user.save()
    return session_of(user)


def page_of(mismatch: Mismatch) -> str:
    return f"{QUEUE}{mismatch.pk}/change/"


def numbers(page: Any) -> list[int]:
    """The items of the list in their order."""
    return [mismatch.pk for mismatch in page.context["cl"].result_list]


def sent(client: Client, mismatch: Mismatch, verb: str, **fields: str) -> Any:
    """The answer to a form on the page of an item, followed to where it leads."""
    return client.post(page_of(mismatch), {"verb": verb, **fields}, follow=True)


def chosen(client: Client, action: str, items: list[Mismatch], **fields: str) -> Any:
    form = {"action": action, "_selected_action": [item.pk for item in items], **fields}
    if not fields:
        form["index"] = "0"
    return client.post(QUEUE, form)


def results(page: Any) -> list[tuple[int, bool]]:
    return [(result.mismatch.pk, result.done) for result in page.context["results"]]


def older(mismatch: Mismatch, days: int) -> None:
    """It was found that many days earlier."""
    with without_triggers([Mismatch._meta.db_table]):
        Mismatch.objects.filter(pk=mismatch.pk).update(
            opened_at=mismatch.opened_at - timedelta(days=days)
        )


@pytest.fixture
def client() -> Client:
    return signed_in(finance())


class TestTheList:
    def test_the_oldest_day_comes_first_and_on_a_day_the_largest_amount(
        self, client: Client
    ) -> None:
        small, large, old = amounts_differ([7, 900, 5])
        older(old, 2)
        assert numbers(client.get(QUEUE)) == [old.pk, large.pk, small.pk]

    def test_it_says_what_is_at_stake_for_how_long_and_who_has_it(self, client: Client) -> None:
        (item,) = amounts_differ([7])
        older(item, 3)
        assign(mismatch_id=item.pk, by=finance(), to=second(), held_by=None)
        text = text_of(client.get(QUEUE))
        assert f"#{item.pk} amount differs" in text
        assert "EUR 0.07 3 d late BOOK-0" in text
        assert "second-finance" in text

    def test_what_belongs_to_no_return_goes_by_the_name_that_others_gave_it(
        self, client: Client
    ) -> None:
        payment_without_operation(refund="re_odd_one")
        assert "— re_odd_one" in text_of(client.get(QUEUE))

    def test_what_is_closed_is_out_of_the_way_until_it_is_asked_for(self, client: Client) -> None:
        first, other = amounts_differ([7, 8])
        resolve(mismatch_id=first.pk, by=finance(), resolution="accept", reason="mere rounding")
        assert numbers(client.get(QUEUE)) == [other.pk]
        assert numbers(client.get(f"{QUEUE}?status=resolved")) == [first.pk]
        assert numbers(client.get(f"{QUEUE}?status=all")) == [other.pk, first.pk]

    def test_it_is_filtered_by_kind_currency_age_and_whose_it_is(self, client: Client) -> None:
        mine, theirs, nobodys = amounts_differ([9, 8, 7])
        older(nobodys, 8)
        for item, who in ((mine, finance()), (theirs, second())):
            assign(mismatch_id=item.pk, by=finance(), to=who, held_by=None)

        def listed(query: str) -> list[int]:
            return numbers(client.get(f"{QUEUE}?{query}"))

        assert listed("assigned=me") == [mine.pk]
        assert listed("assigned=others") == [theirs.pk]
        assert listed("assigned=nobody") == listed("age=7") == [nobodys.pk]
        assert listed("age=30") == listed("currency=USD") == []
        assert listed("kind__exact=credit_missing") == []
        assert len(listed("kind__exact=amount_differs&currency=EUR")) == 3

    def test_what_waits_for_a_second_person_is_found_by_the_one_who_may_confirm(
        self, client: Client
    ) -> None:
        item = payment_without_operation(LARGE)
        resolve(mismatch_id=item.pk, by=finance(), resolution="chase", reason="not made by us")
        assert numbers(client.get(f"{QUEUE}?status=proposed")) == [item.pk]
        assert numbers(client.get(f"{QUEUE}?status=confirm")) == []
        assert numbers(signed_in(second()).get(f"{QUEUE}?status=confirm")) == [item.pk]

    def test_it_is_searched_by_order_return_number_reference_and_key(self, client: Client) -> None:
        item, _ = amounts_differ([7, 8])
        assert item.operation is not None
        task = PaymentTask.objects.get(operation=item.operation)
        names = [
            *("book-0", item.operation.reference, str(item.operation.operation_key)),
            *(str(task.wire_key), "re_0_0", "pi_0_0", f"#{item.pk}"),
        ]
        for name in names:
            assert numbers(client.get(QUEUE, {"q": name})) == [item.pk], name
        assert numbers(client.get(QUEUE, {"q": "BOOK"})) == []

    @pytest.mark.parametrize("query", ["age=soon", "status=odd", "assigned=odd", "q=%20"])
    def test_an_odd_filter_filters_nothing(self, client: Client, query: str) -> None:
        (item,) = amounts_differ([7])
        assert numbers(client.get(f"{QUEUE}?{query}")) == [item.pk]

    def test_nobody_adds_or_deletes_and_others_do_not_even_look(self, client: Client) -> None:
        (item,) = amounts_differ([7])
        assert client.get(f"{QUEUE}add/").status_code == 403
        assert client.post(f"{QUEUE}{item.pk}/delete/", {"post": "yes"}).status_code == 403
        for role in ("desk", "manager"):
            stranger = signed_in(person(f"curious-{role}", role))
            for path in (QUEUE, page_of(item), f"{QUEUE}export/", f"{QUEUE}{item.pk}/next/"):
                assert stranger.get(path).status_code == 403


class TestManyAtOnce:
    def test_mine_is_what_nobody_has(self, client: Client) -> None:
        taken, free = amounts_differ([8, 7])
        assign(mismatch_id=taken.pk, by=finance(), to=second(), held_by=None)
        page = chosen(client, "take", [taken, free])
        assert results(page) == [(taken.pk, False), (free.pk, True)]
        assert "second-finance has this item by now." in text_of(page)
        holders = Mismatch.objects.order_by("payment_id").values_list(
            "assignee__username", flat=True
        )
        assert list(holders) == ["second-finance", "finance"]

    def test_all_that_match_the_filter_can_be_taken_and_what_is_accepted_is_what_was_shown(
        self, client: Client
    ) -> None:
        items = amounts_differ([9, 8, 7])
        everything = {"index": "0", "select_across": "1"}
        taken = chosen(client, "take", items[:1], **everything)
        assert results(taken) == [(item.pk, True) for item in items]
        asked = chosen(client, "accept", items[:1], **everything)
        body = asked.content.decode()
        assert 'name="select_across" value="0"' in body
        assert body.count('name="_selected_action"') == 3

    def test_one_that_cannot_be_asked_about_stops_no_other(self, client: Client) -> None:
        doubtful_payment()
        open_new()
        strange_event()
        open_new()
        doubt, event = Mismatch.objects.order_by("pk")
        page = chosen(client, "ask_again", [event, doubt])
        assert dict(results(page)) == {event.pk: False, doubt.pk: True}
        assert MismatchEvent.objects.get().verb == "ask_again"

    def test_a_refused_credit_is_posted_again_and_what_has_none_is_told(
        self, client: Client
    ) -> None:
        stuck_posting()
        strange_event()
        open_new()
        credit, event = Mismatch.objects.order_by("-at_stake_minor")
        page = chosen(client, "post_again", [credit, event])
        assert dict(results(page)) == {credit.pk: True, event.pk: False}

    def test_differences_are_accepted_with_one_reason_each_by_itself(self, client: Client) -> None:
        large, small, gone = amounts_differ([LARGE, 7, 6])
        items = [large, small, gone]
        asked = chosen(client, "accept", items)
        assert "Accept these 3 differences" in text_of(asked)
        resolve(mismatch_id=gone.pk, by=second(), resolution="chase", reason="asked them")
        done = chosen(client, "accept", items, reason="agreed at month end", evidence="memo 4")
        assert dict(results(done)) == {large.pk: True, small.pk: True}
        assert "somebody else must confirm it" in text_of(done)
        found = Mismatch.objects.order_by("payment_id").values_list(
            "status", "resolution", "evidence"
        )
        assert list(found) == [
            ("open", "accept", "memo 4"),
            ("resolved", "accept", "memo 4"),
            ("resolved", "chase", ""),
        ]

    def test_without_a_reason_nothing_is_accepted(self, client: Client) -> None:
        items = amounts_differ([7, 8])
        with nothing_changes():
            page = chosen(client, "accept", items, reason="ok")
        assert page.status_code == 400
        assert "Say why, in some words." in text_of(page)


class TestOneItem:
    def test_the_difference_stands_on_top_and_all_sides_beside_each_other(
        self, client: Client
    ) -> None:
        (item,) = amounts_differ([7])
        text = text_of(client.get(page_of(item)))
        parts = [
            *("Difference EUR +0.07", "we say EUR 5.00, they say EUR 5.07; the goal is 0"),
            "What to do next: Compare both figures.",
            *("Our side", "paid ·", "Provider re_0_0 EUR 5.07", "book, line", "Books book-0"),
            *("Candidates", "History", "Close it as"),
        ]
        places = [text.find(part) for part in parts]
        assert -1 not in places, parts[places.index(-1)]
        assert places == sorted(places)

    def test_a_damaged_reference_shows_the_return_whose_key_begins_alike(
        self, client: Client
    ) -> None:
        operation = factories.received()
        item = damaged_reference(str(operation.operation_key))
        page = client.get(page_of(item))
        assert f"{operation.reference} received its key begins alike" in text_of(page)
        proposing = client.get(page_of(item), {"operation": operation.reference})
        assert f'value="{operation.reference}"' in proposing.content.decode()
        sent(
            client,
            item,
            "resolve",
            resolution="link",
            operation=operation.reference,
            reason="same goods and day",
        )
        assert Mismatch.objects.get().operation == operation

    def test_the_missing_half_of_a_payment_is_a_candidate(self, client: Client) -> None:
        amounts_differ([700])
        item = payment_without_operation(700)
        (other,) = Mismatch.objects.exclude(pk=item.pk)
        assert f"#{other.pk} amount differs open item of the same amount" in text_of(
            client.get(page_of(item))
        )

    def test_closing_leads_to_the_next_of_the_list_that_one_came_from(self, client: Client) -> None:
        first, second_one, third = amounts_differ([9, 8, 7])
        kept = "_changelist_filters=age%3D1"
        for item in (first, third):
            older(item, 2)
        form = {"verb": "resolve", "resolution": "accept", "reason": "mere rounding"}
        answer = client.post(f"{page_of(first)}?{kept}", form)
        assert answer["Location"] == f"{page_of(third)}?{kept}"
        answer = client.post(f"{page_of(third)}?{kept}", form)
        assert answer["Location"] == f"{QUEUE}?age=1"
        assert second_one in Mismatch.objects.filter(status="open")

    def test_skipping_comes_round_to_the_first_again(self, client: Client) -> None:
        first, last = amounts_differ([9, 8])
        assert client.get(f"{QUEUE}{first.pk}/next/")["Location"] == page_of(last)
        assert client.get(f"{QUEUE}{last.pk}/next/")["Location"] == page_of(first)

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"resolution": "accept", "reason": "ok"}, "Say why, in some words."),
            ({"resolution": "", "reason": "as agreed"}, "Choose how it is closed."),
            ({"resolution": "link", "reason": "as agreed"}, "Name the operation to link to."),
            (
                {"resolution": "link", "reason": "as agreed", "operation": "R-404"},
                "There is no return of this name.",
            ),
        ],
    )
    def test_what_is_refused_is_said_and_what_was_typed_is_kept(
        self, client: Client, fields: dict[str, str], words: str
    ) -> None:
        (item,) = amounts_differ([7])
        with nothing_changes():
            page = sent(client, item, "resolve", evidence="ticket 77", **fields)
        assert page.status_code == 400
        assert text_of(page).count(words) == 2
        assert 'value="ticket 77"' in page.content.decode()

    def test_above_the_limit_the_second_person_confirms_on_the_same_page(
        self, client: Client
    ) -> None:
        item = payment_without_operation(LARGE)
        assert "Propose this to a second person" in text_of(client.get(page_of(item)))
        sent(client, item, "resolve", resolution="accept", reason="known to the bank")
        mine = client.get(page_of(item))
        assert "somebody else must confirm it" in text_of(mine)
        assert 'value="confirm"' not in mine.content.decode()
        other = signed_in(second())
        seen = other.get(page_of(item)).context["mismatch"].proposed_at
        sent(other, item, "confirm", proposed_at=seen.isoformat())
        assert Mismatch.objects.get().resolved_by == second()

    def test_the_second_person_may_say_no(self, client: Client) -> None:
        item = payment_without_operation(LARGE)
        sent(client, item, "resolve", resolution="accept", reason="known to the bank")
        page = sent(signed_in(second()), item, "turn_down", turn_down="not known at all")
        text = text_of(page)
        assert "proposal turned down not known at all" in text
        assert "Propose this to a second person" in text

    @pytest.mark.parametrize("moment", ["", "yesterday", "2026-13-40", "2026-01-01T10:00"])
    def test_a_confirmation_names_the_proposal(self, client: Client, moment: str) -> None:
        item = payment_without_operation(LARGE)
        resolve(mismatch_id=item.pk, by=second(), resolution="chase", reason="not made by us")
        with nothing_changes():
            page = sent(client, item, "confirm", proposed_at=moment)
        assert page.status_code == 400

    def test_a_proposal_that_changed_meanwhile_is_not_confirmed(self, client: Client) -> None:
        item = payment_without_operation(LARGE)
        resolve(mismatch_id=item.pk, by=second(), resolution="chase", reason="not made by us")
        page = sent(client, item, "confirm", proposed_at=timezone.now().isoformat())
        assert page.status_code == 409
        assert "The proposal has changed" in text_of(page)

    def test_it_is_assigned_noted_and_looked_at_once(self, client: Client) -> None:
        (item,) = amounts_differ([7])
        client.get(page_of(item))
        sent(client, item, "assign", assignee="finance", held_by="")
        page = sent(client, item, "note", note="called the bank")
        text = text_of(page)
        assert "finance looked at for the first time" in text
        assert "finance assigned to finance" in text
        assert "finance noted called the bank" in text
        assert MismatchEvent.objects.filter(verb="look_at").count() == 1

    def test_the_provider_and_the_books_are_asked_from_the_page(self, client: Client) -> None:
        stuck_posting()
        open_new()
        item = Mismatch.objects.get()
        page = client.get(page_of(item))
        assert "no payment of ours" in text_of(page)
        assert "still set aside" in text_of(page)
        assert "posting is being tried again" in text_of(sent(client, item, "post_again"))

    @pytest.mark.parametrize("pk", ["0", "abc", "9" * 30])
    def test_what_is_not_there_is_not_found(self, client: Client, pk: str) -> None:
        assert client.get(f"{QUEUE}{pk}/change/").status_code == 404

    def test_a_button_that_is_none_is_refused(self, client: Client) -> None:
        (item,) = amounts_differ([7])
        assert sent(client, item, "pay").status_code == 404

    def test_the_text_of_others_is_shown_as_text(self, client: Client) -> None:
        item = payment_without_operation(refund="<script>alert(1)</script>")
        body = client.get(page_of(item)).content.decode()
        assert "<script>alert(1)" not in body
        assert "&lt;script&gt;alert(1)" in body


def more_items() -> None:
    """Three of other kinds, one with a long history."""
    doubtful_payment()
    strange_event()
    open_new()
    item = payment_without_operation(refund="re_more")
    for who in (finance(), None, finance()):
        held_by = Mismatch.objects.get(pk=item.pk).assignee
        assign(mismatch_id=item.pk, by=finance(), to=who, held_by=held_by)


def test_statements_do_not_depend_on_rows(client: Client) -> None:
    items = amounts_differ([9, 8])
    addresses = [QUEUE, f"{QUEUE}?status=all&q=re_0_0", page_of(items[0])]
    assert_constant(client, addresses, more_items)


@pytest.mark.parametrize("make", [doubtful_payment, strange_event, stuck_posting])
def test_no_page_of_an_item_takes_more_statements_than_that(
    client: Client, make: Callable[[], object]
) -> None:
    make()
    open_new()
    assert queries_of(client, page_of(Mismatch.objects.get())) <= 25


class TestExport:
    def rows(self, client: Client, query: str = "") -> list[dict[str, str]]:
        answer = client.get(f"{QUEUE}export/?{query}")
        assert answer.streaming
        assert answer["Content-Type"] == "text/csv; charset=utf-8"
        text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
        return list(csv.DictReader(io.StringIO(text)))

    def test_it_is_exactly_the_list_with_its_filter_and_order(self, client: Client) -> None:
        small, large = amounts_differ([7, 900])
        assert [row["number"] for row in self.rows(client)] == [str(large.pk), str(small.pk)]
        (row,) = self.rows(client, "q=re_0_0")
        assert (row["order"], row["provider_refund"], row["at_stake"]) == (
            "BOOK-0",
            "re_0_0",
            "0.07",
        )
        assert (row["currency"], row["expected"], row["found"]) == ("EUR", "5.00", "5.07")
        assert self.rows(client, "status=resolved") == []

    @pytest.mark.parametrize("query", ["opened_at__odd=1", "id__exact=abc"])
    def test_a_filter_that_is_not_understood_exports_nothing(
        self, client: Client, query: str
    ) -> None:
        assert client.get(f"{QUEUE}export/?{query}").status_code == 400

    def test_its_statements_do_not_depend_on_rows(self, client: Client) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                self.rows(client)
            return len(captured)

        amounts_differ([9, 8])
        few = statements()
        more_items()
        assert statements() == few

    def test_what_looks_like_a_formula_stays_text(self, client: Client) -> None:
        item = payment_without_operation(refund='=HYPERLINK("http://x.invalid")')
        resolve(mismatch_id=item.pk, by=finance(), resolution="accept", reason="+1 from the bank")
        (row,) = self.rows(client, "status=all")
        assert row["provider_refund"] == '\'=HYPERLINK("http://x.invalid")'
        assert row["reason"] == "'+1 from the bank"

    @pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
    def test_every_beginning_of_a_formula_gets_a_quote(self, first: str) -> None:
        assert spreadsheets.cell(f"{first}1") == f"'{first}1"

    def test_our_own_numbers_stay_numbers(self) -> None:
        assert list(spreadsheets.lines([(-5, None, "a,b")])) == ['-5,,"a,b"\r\n']
