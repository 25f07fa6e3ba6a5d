"""Replay: what was not understood, or still waits, can be read again when the code can read it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from payments import webhooks
from payments.models import PaymentTask, ProviderEvent
from payments.providers import stripe
from returns.errors import Missing, NotAllowed, WrongState
from returns.states import TaskState
from tests import factories
from tests.api_client import Api
from tests.events import refund_event, signed
from tests.oracle import nothing_changes
from tests.pages import signed_in, text_of
from tests.workers import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("secret")]

Standing = ProviderEvent.Standing


@pytest.fixture
def task() -> PaymentTask:
    """A payment that waits for its worker; 100.00 USD."""
    return PaymentTask.objects.get(operation=factories.reserved())


def receive(event: object) -> ProviderEvent:
    body, headers = signed(event)
    return webhooks.receive(name="stripe", body=body.encode(), headers=headers)


def of_a_new_kind(task: PaymentTask) -> ProviderEvent:
    """What the provider says in a word that we do not know yet."""
    return receive(refund_event(task, "paid_out"))


def we_learn_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next release can read it."""
    known = stripe._read_refund

    def reads_more(refund: dict[str, Any]) -> Any:
        status = "succeeded" if refund["status"] == "paid_out" else refund["status"]
        return known(refund | {"status": status})

    monkeypatch.setattr(stripe, "_read_refund", reads_more)


def state(task: PaymentTask) -> str:
    return PaymentTask.objects.get(pk=task.pk).state


def test_what_is_still_not_understood_stays_as_it_is(task: PaymentTask) -> None:
    event = of_a_new_kind(task)
    assert event.standing == Standing.NOT_UNDERSTOOD
    with pytest.raises(WrongState, match="still not understood"):
        webhooks.replay(event_id=event.pk, by=factories.finance())
    event.refresh_from_db()
    assert (event.standing, state(task)) == (Standing.NOT_UNDERSTOOD, TaskState.PENDING)


def test_what_can_be_read_by_now_is_applied_once(
    task: PaymentTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = of_a_new_kind(task)
    we_learn_the_word(monkeypatch)
    finance = factories.finance()
    replayed = webhooks.replay(event_id=event.pk, by=finance)
    assert (replayed.standing, state(task)) == (Standing.APPLIED, TaskState.SUCCEEDED)
    assert finance.username in replayed.note
    with nothing_changes():
        webhooks.replay(event_id=event.pk, by=finance)


def test_two_who_replay_at_the_same_moment_apply_it_once(
    task: PaymentTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = of_a_new_kind(task)
    we_learn_the_word(monkeypatch)
    finance = factories.finance()
    both = at_once([lambda: webhooks.replay(event_id=event.pk, by=finance).standing] * 2)
    assert both == [Standing.APPLIED] * 2
    assert state(task) == TaskState.SUCCEEDED


def test_replaying_everything_changes_nothing(task: PaymentTask) -> None:
    """What was applied or ignored stays; a parked one goes on waiting for its payment."""
    receive(refund_event(task, "succeeded"))
    receive(refund_event(task, "pending", kind="charge.refunded"))
    finance = factories.finance()
    with nothing_changes():
        for event in ProviderEvent.objects.order_by("pk"):
            webhooks.replay(event_id=event.pk, by=finance)


def test_only_finance_and_admins_replay(task: PaymentTask) -> None:
    event = of_a_new_kind(task)
    for refused in (factories.desk(), factories.manager(), factories.integration()):
        with pytest.raises(NotAllowed):
            webhooks.replay(event_id=event.pk, by=refused)
    with pytest.raises(Missing):
        webhooks.replay(event_id=0, by=factories.finance())


def test_over_the_api(task: PaymentTask, monkeypatch: pytest.MonkeyPatch) -> None:
    event, api = of_a_new_kind(task), Api(factories.finance())
    receive(refund_event(task, "pending", kind="charge.refunded"))
    (listed,) = api.get("provider-events/", standing="not_understood").body["results"]
    assert (listed["id"], listed["kind"]) == (event.pk, "refund.updated")
    address = f"provider-events/{event.pk}/replay/"
    assert api.post(address).status == 409
    we_learn_the_word(monkeypatch)
    assert api.post(address).body["standing"] == "applied"
    assert api.post("provider-events/0/replay/").status == 404
    assert api.get("provider-events/", standing="odd").status == 400
    desk = Api(factories.desk())
    assert (desk.get("provider-events/").status, desk.post(address).status) == (403, 403)


def test_on_the_admins_page_each_event_stands_for_itself(
    task: PaymentTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    readable, unreadable = of_a_new_kind(task), receive("not json")
    we_learn_the_word(monkeypatch)
    page = chosen(of_the_office(), [unreadable, readable])
    assert "still not understood" in page
    readable.refresh_from_db()
    unreadable.refresh_from_db()
    assert (readable.standing, unreadable.standing) == (Standing.APPLIED, Standing.NOT_UNDERSTOOD)


def of_the_office() -> User:
    """Finance as the office has it: with the admin's pages."""
    finance = factories.finance()
    finance.is_staff = True
    finance.save(update_fields=["is_staff"])
    return finance


def chosen(by: User, events: list[ProviderEvent]) -> str:
    """What the admin's list says after its replay of the chosen events."""
    posted = {"action": "replay", "_selected_action": [str(event.pk) for event in events]}
    address = reverse("admin:payments_providerevent_changelist")
    return text_of(signed_in(by).post(address, posted, follow=True))
