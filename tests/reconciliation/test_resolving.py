"""What finance does about a mismatch: alone up to a limit, above it together; money stays put."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import Settings

from payments.models import PaymentTask
from reconciliation import resolving
from reconciliation.mismatches import open_new
from reconciliation.models import ErpPosting, Mismatch, MismatchEvent
from reconciliation.resolving import (
    ask_again,
    assign,
    confirm,
    look_at,
    note,
    post_again,
    resolve,
    turn_down,
)
from returns.errors import Invalid, Missing, NotAllowed, Stale, WrongState
from returns.models import RefusedAttempt
from tests import factories, raw_sql
from tests.factories import finance, person
from tests.oracle import nothing_changes, refused, snapshot
from tests.races.staging import Pause
from tests.raw_sql import says_no
from tests.reconciliation.items import amounts_differ, damaged_reference, payment_without_operation
from tests.reconciliation.test_mismatches import doubtful_payment, stuck_posting
from tests.workers import at_once

pytestmark = pytest.mark.django_db

# USD and EUR: one person decides on 1000.00 at most.
LARGE = 100_001


def second() -> User:
    return person("second-finance", "finance")


def decide(mismatch: Mismatch, by: User | None = None, **other: Any) -> Mismatch:
    decision = {"resolution": "accept", "reason": "agreed with the bank", **other}
    return resolve(mismatch_id=mismatch.pk, by=by or finance(), **decision)


def told(mismatch: Mismatch) -> list[tuple[str, str, str]]:
    rows = mismatch.events.select_related("by").order_by("pk")
    return [(event.verb, event.by.username, event.note) for event in rows]


@pytest.fixture
def small() -> Mismatch:
    return payment_without_operation(minor=100_000)


@pytest.fixture
def large() -> Mismatch:
    return payment_without_operation(minor=LARGE)


class TestAlone:
    def test_up_to_the_limit_one_person_closes(self, small: Mismatch) -> None:
        closed = decide(small, evidence="ticket 77")
        assert (closed.status, closed.resolved_by, closed.proposed_by) == (
            "resolved",
            finance(),
            None,
        )
        assert told(small) == [
            ("resolve", "finance", "accept the difference · agreed with the bank · ticket 77")
        ]

    @pytest.mark.parametrize("resolution", ["accept", "correction", "chase", "link"])
    def test_no_resolution_moves_money_or_a_state(self, resolution: str) -> None:
        operation = factories.received()
        item = payment_without_operation()
        before = {row for row in snapshot() if "mismatch" not in row[0]}
        key = operation.operation_key if resolution == "link" else None
        closed = decide(item, resolution=resolution, operation_key=key)
        assert (closed.status, closed.resolution) == ("resolved", resolution)
        assert {row for row in snapshot() if "mismatch" not in row[0]} == before

    def test_a_link_is_a_record_only(self) -> None:
        operation = factories.received()
        item = damaged_reference(str(operation.operation_key))
        linked = decide(item, resolution="link", operation_key=operation.operation_key)
        assert (linked.operation, linked.link_to) == (operation, operation)
        assert not operation.payments.exists()

    @pytest.mark.parametrize("reason", ["", " ", "ok", "done.", "x" * 2_001])
    def test_a_reason_is_some_words(self, small: Mismatch, reason: str) -> None:
        with refused(Invalid) as refusal:
            decide(small, reason=reason)
        assert list(refusal.value.fields) == ["reason"]

    def test_a_currency_without_a_limit_of_its_own_has_the_general_one(
        self, settings: Settings
    ) -> None:
        settings.RESOLUTION_LIMITS = {"EUR": "10", "other": "3"}
        assert [resolving.alone_up_to_minor(code) for code in ("EUR", "JPY", "KWD", "")] == [
            *(1_000, 3, 3_000),
            0,
        ]

    @pytest.mark.parametrize("role", ["desk", "manager", "integration"])
    def test_nobody_but_finance_does_any_of_it(self, small: Mismatch, role: str) -> None:
        somebody = person("somebody", role)
        pk = small.pk
        calls: list[Callable[[], object]] = [
            lambda: decide(small, somebody),
            lambda: assign(mismatch_id=pk, by=somebody, to=None, held_by=None),
            lambda: note(mismatch_id=pk, by=somebody, text="x"),
            lambda: ask_again(mismatch_id=pk, by=somebody),
            lambda: post_again(mismatch_id=pk, by=somebody),
            lambda: confirm(mismatch_id=pk, by=somebody, proposed_at=timezone.now()),
            lambda: turn_down(mismatch_id=pk, by=somebody, reason="I think not"),
        ]
        for call in calls:
            with refused(NotAllowed, code="role"):
                call()


class TestTwoPeople:
    def test_above_the_limit_one_proposes_and_another_confirms(self, large: Mismatch) -> None:
        proposed = decide(large, evidence="mail of the bank")
        assert (proposed.status, proposed.proposed_by) == ("open", finance())
        assert proposed.proposed_at is not None
        closed = confirm(mismatch_id=large.pk, by=second(), proposed_at=proposed.proposed_at)
        assert (closed.status, closed.resolution) == ("resolved", "accept")
        assert (closed.proposed_by, closed.resolved_by) == (finance(), second())
        assert [(verb, who) for verb, who, _ in told(large)] == [
            ("propose", "finance"),
            ("resolve", "second-finance"),
        ]
        with nothing_changes():
            confirm(mismatch_id=large.pk, by=second(), proposed_at=proposed.proposed_at)

    def test_nobody_confirms_or_turns_down_what_they_proposed(self, large: Mismatch) -> None:
        at = decide(large).proposed_at
        assert at is not None
        with refused(NotAllowed, code="own_proposal"):
            confirm(mismatch_id=large.pk, by=finance(), proposed_at=at)
        with refused(NotAllowed, code="own_proposal"):
            turn_down(mismatch_id=large.pk, by=finance(), reason="changed my mind")

    def test_the_one_who_proposed_may_propose_something_else_and_the_old_is_stale(
        self, large: Mismatch
    ) -> None:
        first = decide(large).proposed_at
        assert first is not None
        with nothing_changes():
            decide(large)
        decide(large, resolution="chase")
        with refused(Stale):
            confirm(mismatch_id=large.pk, by=second(), proposed_at=first)

    def test_somebody_elses_proposal_is_not_written_over(self, large: Mismatch) -> None:
        decide(large)
        with refused(WrongState):
            decide(large, second(), resolution="chase")

    def test_turned_down_it_is_open_again_with_the_reason_in_its_history(
        self, large: Mismatch
    ) -> None:
        decide(large, evidence="none")
        again = turn_down(mismatch_id=large.pk, by=second(), reason="the bank says otherwise")
        assert (again.status, again.resolution, again.proposed_by) == ("open", "", None)
        assert told(large)[-1] == ("turn_down", "second-finance", "the bank says otherwise")
        assert decide(large, second()).proposed_by == second()

    def test_there_is_nothing_to_confirm_before_somebody_proposes(self, large: Mismatch) -> None:
        with refused(WrongState):
            confirm(mismatch_id=large.pk, by=second(), proposed_at=timezone.now())
        with refused(WrongState):
            turn_down(mismatch_id=large.pk, by=second(), reason="not at all")

    def test_a_proposal_does_not_keep_an_item_from_becoming_right_by_itself(
        self, run_workers: Callable[..., None], settings: Settings
    ) -> None:
        settings.RESOLUTION_LIMITS = {"other": "1"}
        doubtful_payment()
        open_new()
        item = Mismatch.objects.get()
        decide(item)
        run_workers()
        assert Mismatch.objects.get().resolution == "righted"


class TestTheDatabaseSaysNo:
    def closed(self, large: Mismatch, **columns: Any) -> None:
        raw_sql.change(
            large,
            **{
                "status": "resolved",
                "resolution": "accept",
                "reason": "x",
                "resolved_at": timezone.now(),
                "resolved_by_id": finance().pk,
                **columns,
            },
        )

    def test_to_one_person_above_the_limit(self, large: Mismatch) -> None:
        with says_no("mismatch_above_the_limit_takes_two"):
            self.closed(large)
        with says_no("mismatch_above_the_limit_takes_two"):
            self.closed(large, alone_up_to_minor=LARGE - 1)

    def test_to_the_same_person_twice(self, large: Mismatch) -> None:
        decide(large)
        with says_no("mismatch_two_are_not_the_same"):
            self.closed(large)

    def test_to_half_a_proposal(self, large: Mismatch) -> None:
        with says_no("mismatch_proposal_is_whole"):
            raw_sql.change(large, proposed_by_id=finance().pk)

    @pytest.mark.parametrize(
        ("column", "value"),
        [("at_stake_minor", 1), ("found_minor", 1), ("currency", "USD"), ("detail", "nothing")],
    )
    def test_to_other_figures(self, large: Mismatch, column: str, value: object) -> None:
        with says_no("cannot update"):
            raw_sql.change(large, **{column: value})

    def test_to_opening_again_what_is_closed(self, small: Mismatch) -> None:
        decide(small)
        with says_no("cannot update"):
            raw_sql.change(small, status="open")

    def test_to_another_history(self, small: Mismatch) -> None:
        note(mismatch_id=small.pk, by=finance(), text="called the bank")
        with says_no("cannot update or delete"):
            raw_sql.change(MismatchEvent.objects.get(), note="did not")


class TestAssigning:
    def test_an_item_is_given_to_somebody_and_back(self, small: Mismatch) -> None:
        assign(mismatch_id=small.pk, by=finance(), to=second(), held_by=None)
        with nothing_changes():
            assign(mismatch_id=small.pk, by=finance(), to=second(), held_by=None)
        assign(mismatch_id=small.pk, by=second(), to=None, held_by=second())
        assert told(small) == [
            ("assign", "finance", "to second-finance"),
            ("assign", "second-finance", "to nobody"),
        ]

    def test_what_somebody_has_taken_meanwhile_is_not_taken_from_them(
        self, small: Mismatch
    ) -> None:
        assign(mismatch_id=small.pk, by=second(), to=second(), held_by=None)
        with refused(Stale):
            assign(mismatch_id=small.pk, by=finance(), to=finance(), held_by=None)

    def test_only_who_may_close_it_can_have_it(self, small: Mismatch) -> None:
        with refused(Invalid):
            assign(mismatch_id=small.pk, by=finance(), to=factories.desk(), held_by=None)

    def test_what_is_closed_is_nobodys_any_more(self, small: Mismatch) -> None:
        decide(small)
        with refused(WrongState):
            assign(mismatch_id=small.pk, by=finance(), to=finance(), held_by=None)


class TestLookingAndNoting:
    def test_only_the_first_look_of_somebody_who_may_close_it_counts(self, small: Mismatch) -> None:
        look_at(mismatch_id=small.pk, by=person("admiring", "manager"))
        assert told(small) == []
        look_at(mismatch_id=small.pk, by=finance())
        with nothing_changes():
            look_at(mismatch_id=small.pk, by=second())
        assert told(small) == [("look_at", "finance", "")]

    @pytest.mark.parametrize("text", ["", "  ", "x" * 2_001])
    def test_a_note_says_something(self, small: Mismatch, text: str) -> None:
        with refused(Invalid):
            note(mismatch_id=small.pk, by=finance(), text=text)

    def test_a_note_about_nothing_is_refused(self) -> None:
        with refused(Missing, code="unknown_mismatch"):
            note(mismatch_id=0, by=finance(), text="who is there")


class TestAskingAgain:
    def test_the_provider_is_asked_and_the_item_closes_by_itself(
        self, run_workers: Callable[..., None]
    ) -> None:
        task = doubtful_payment()
        open_new()
        item = Mismatch.objects.get()
        PaymentTask.objects.update(next_look_at=timezone.now() + timedelta(days=9))
        ask_again(mismatch_id=item.pk, by=finance())
        assert PaymentTask.objects.filter(next_look_at__lte=timezone.now()).exists()
        assert task.operation.events.filter(verb="ask_again", by=finance()).exists()
        assert told(item) == [("ask_again", "finance", "")]
        assert Mismatch.objects.get().status == "open"
        run_workers()
        assert Mismatch.objects.get().resolution == "righted"

    def test_there_is_nothing_to_ask_about_a_payment_that_is_not_ours(
        self, small: Mismatch
    ) -> None:
        with refused(WrongState):
            ask_again(mismatch_id=small.pk, by=finance())

    def test_an_administrator_closes_but_does_not_ask_the_provider(self) -> None:
        doubtful_payment()
        open_new()
        with refused(NotAllowed, code="role"):
            ask_again(mismatch_id=Mismatch.objects.get().pk, by=person("admin", "admin"))

    def test_nothing_is_asked_about_what_is_closed(self) -> None:
        doubtful_payment()
        open_new()
        item = Mismatch.objects.get()
        decide(item)
        with refused(WrongState):
            ask_again(mismatch_id=item.pk, by=finance())


class TestPostingAgain:
    def test_a_credit_set_aside_is_tried_again_from_its_item(self) -> None:
        credit = stuck_posting()
        open_new()
        item = Mismatch.objects.get()
        post_again(mismatch_id=item.pk, by=finance())
        again = ErpPosting.objects.get(pk=credit.pk)
        assert (again.state, told(item)) == ("unknown", [("post_again", "finance", "")])

    def test_a_credit_that_is_not_set_aside_is_left_alone(self, small: Mismatch) -> None:
        with refused(WrongState):
            post_again(mismatch_id=small.pk, by=finance())

    def test_an_item_is_not_closed_over_a_credit_set_aside(self) -> None:
        stuck_posting()
        open_new()
        with refused(WrongState):
            decide(Mismatch.objects.get())


def test_a_refusal_names_who_closed_it(small: Mismatch) -> None:
    decide(small, second())
    with refused(WrongState, resolution="accept"):
        decide(small, resolution="chase")
    assert "closed by second-finance" in RefusedAttempt.objects.get().detail


@pytest.mark.django_db(transaction=True)
class TestTwoAtOnce:
    def test_two_who_close_at_once_close_it_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (item,) = amounts_differ([7])
        between = Pause(monkeypatch, resolving, "_refuse_closed")
        first, later = between.first_then_second(
            partial(decide, item, finance()), partial(decide, item, second(), resolution="chase")
        )
        assert isinstance(first, Mismatch)
        assert isinstance(later, WrongState)
        assert [verb for verb, *_ in told(item)] == ["resolve"]

    def test_two_who_take_an_item_at_once_do_not_both_have_it(self) -> None:
        (item,) = amounts_differ([7])
        people = [finance(), second()]
        results = at_once(
            [partial(assign, mismatch_id=item.pk, by=who, to=who, held_by=None) for who in people]
        )
        assert [isinstance(result, Stale) for result in results].count(True) == 1
        assert len(told(item)) == 1

    def test_a_double_click_proposes_once(self) -> None:
        item = payment_without_operation(minor=LARGE)
        results = at_once([partial(decide, item)] * 4)
        assert not [result for result in results if isinstance(result, Exception)]
        assert [verb for verb, *_ in told(item)] == ["propose"]
