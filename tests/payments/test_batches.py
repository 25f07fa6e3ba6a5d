"""Many returns approved at once: each by itself, none twice, and every refusal with its reason."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, transaction
from django_q.models import OrmQ

from payments import batches, tasks
from payments.approval import approve
from payments.models import Approval, ApprovalBatch, BatchItem, PaymentTask
from returns import inspection
from returns.closing import withdraw
from returns.errors import BatchChanged, Invalid, NotAllowed
from returns.models import RefundOperation, RefusedAttempt
from returns.states import OperationState
from tests import factories
from tests.api_client import Api
from tests.oracle import nothing_changes, refused
from tests.pages import form_on, queries_of, signed_in, text_of
from tests.workers import at_once

pytestmark = pytest.mark.django_db(transaction=True)

ALL_MINOR = 100_00
Outcome = BatchItem.Outcome


def yes_to(operation: RefundOperation, minor: int = ALL_MINOR) -> batches.Decision:
    return batches.Decision(operation.operation_key, operation.version, minor)


def opened(*operations: RefundOperation, token: UUID | None = None) -> ApprovalBatch:
    return batches.open_batch(
        token=token or uuid4(),
        by=factories.manager(),
        decisions=[yes_to(one) for one in operations],
    )


def outcomes(batch: ApprovalBatch) -> list[str]:
    return list(batches.items(batch).values_list("outcome", flat=True))


def test_the_request_only_writes_the_list_and_one_message() -> None:
    batch = opened(factories.inspected(), factories.inspected())
    assert outcomes(batch) == [Outcome.WAITING] * 2
    assert OrmQ.objects.count() == 1
    assert not PaymentTask.objects.exists()


def test_each_is_approved_and_its_money_reserved() -> None:
    first, second = factories.inspected(), factories.inspected()
    batch = opened(first, second)
    assert tasks.approve_batch(batch.pk) == 2
    assert outcomes(batch) == [Outcome.APPROVED] * 2
    assert {factories.fresh(one).state for one in (first, second)} == {OperationState.RESERVED}
    with nothing_changes():
        assert tasks.approve_batch(batch.pk) == 0


def test_one_that_has_changed_meanwhile_stops_no_other() -> None:
    changed, other, own = factories.inspected(), factories.inspected(), factories.inspected()
    batch = opened(changed, own, other)
    factories.approved_by(factories.second_manager(), changed, 50_00)
    assert tasks.approve_batch(batch.pk) == 2
    assert outcomes(batch) == [Outcome.REFUSED, Outcome.APPROVED, Outcome.APPROVED]
    item = batches.items(batch)[0]
    assert (item.code, item.words) == (
        "wrong_state",
        f"{changed} is reserved; only an inspected return is approved.",
    )
    assert RefusedAttempt.objects.filter(operation=changed, verb="approve").count() == 1
    counts = batches.counts(batch)
    assert (counts.refused, counts.on_its_way, counts.unfinished) == (1, 2, 2)


def test_whoever_inspected_it_does_not_approve_it_in_bulk_either() -> None:
    operation = factories.received()
    manager = factories.manager()
    inspection.inspect(
        operation_key=operation.operation_key,
        by=manager,
        accepted=factories.units(operation),
        rejected=(),
    )
    batch = opened(factories.fresh(operation))
    tasks.approve_batch(batch.pk)
    assert batches.items(batch)[0].code == "own_intake"


def test_whoever_is_no_manager_any_more_approves_nothing() -> None:
    batch = opened(factories.inspected())
    factories.manager().groups.clear()
    tasks.approve_batch(batch.pk)
    assert batches.items(batch)[0].code == "role"
    assert not PaymentTask.objects.exists()


def test_two_workers_at_one_batch_approve_each_return_once() -> None:
    batch = opened(*(factories.inspected() for _ in range(6)))
    at_once([lambda: tasks.approve_batch(batch.pk)] * 2)
    assert outcomes(batch) == [Outcome.APPROVED] * 6
    assert PaymentTask.objects.count() == Approval.objects.count() == 6


def test_a_batch_and_an_approval_by_hand_at_the_same_moment_pay_once() -> None:
    operation = factories.inspected()
    batch = opened(operation)

    def by_hand() -> object:
        by = factories.manager()
        return approve(operation_key=operation.operation_key, by=by, amount_minor=ALL_MINOR)

    at_once([lambda: tasks.approve_batch(batch.pk), by_hand])
    assert PaymentTask.objects.count() == 1
    assert outcomes(batch) == [Outcome.APPROVED], "the same yes again has had its effect"


def test_the_same_token_is_the_same_batch() -> None:
    first, second, token = factories.inspected(), factories.inspected(), uuid4()
    batch = opened(first, second, token=token)
    with nothing_changes():
        assert opened(second, first, token=token) == batch
    with refused(BatchChanged):
        opened(first, token=token)


def test_sent_twice_at_the_same_moment_it_is_one_batch() -> None:
    operation, token = factories.inspected(), uuid4()
    one, other = at_once([lambda: opened(operation, token=token)] * 2)
    assert one == other
    assert BatchItem.objects.count() == OrmQ.objects.count() == 1


def test_nobody_but_managers_opens_one() -> None:
    operation = factories.inspected()
    for other in (factories.desk(), factories.finance(), factories.integration()):
        with refused(NotAllowed, code="role"):
            batches.open_batch(token=uuid4(), by=other, decisions=[yes_to(operation)])


def test_odd_selections_are_refused_whole() -> None:
    operation = factories.inspected()
    unknown = batches.Decision(uuid4(), 1, 1)
    for decisions in ([], [yes_to(operation)] * 2, [unknown], [yes_to(operation, 0)]):
        with refused(Invalid):
            batches.open_batch(token=uuid4(), by=factories.manager(), decisions=decisions)


def test_the_database_keeps_decisions_as_they_were_made() -> None:
    batch = opened(factories.inspected())
    item = batch.items.get()
    for change in ({"amount_minor": 1}, {"outcome": "approved"}, {"version": 9}):
        with pytest.raises(DatabaseError), transaction.atomic():
            BatchItem.objects.filter(pk=item.pk).update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        BatchItem.objects.all().delete()
    tasks.approve_batch(batch.pk)
    for rewritten in (
        {"outcome": "waiting", "done_at": None},
        {"outcome": "refused"},
        {"words": "x"},
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            BatchItem.objects.update(**rewritten)


# Over HTTP and in the browser.


def test_over_the_api() -> None:
    operation, api, token = factories.inspected(), Api(factories.manager()), str(uuid4())
    one = {"name": operation.reference, "amount": "100.00", "version": operation.version}
    answer = api.post("approvals/batches/", {"token": token, "returns": [one]})
    assert (answer.status, answer.body["counts"]["waiting"]) == (202, 1)
    tasks.approve_batch(ApprovalBatch.objects.get().pk)
    read = api.get(f"approvals/batches/{token}/").body
    assert (read["returns"][0]["outcome"], read["returns"][0]["amount"]) == ("approved", "100.00")
    assert api.get(f"approvals/batches/{uuid4()}/").code == "unknown_batch"
    changed = api.post("approvals/batches/", {"token": token, "returns": [{**one, "version": 9}]})
    assert (changed.status, changed.code) == (409, "batch_changed")
    for odd, code in (
        ({"name": "R-999"}, "unknown_return"),
        ({"amount": "1.005"}, "invalid"),
        ({"amount": "0"}, "invalid"),
        ({"version": 10**12}, "invalid"),
        ({"version": True}, "invalid"),
        ({"name": "R-1\x00"}, "invalid"),
    ):
        asked = {"token": str(uuid4()), "returns": [{**one, **odd}]}
        assert api.post("approvals/batches/", asked).code == code
    assert Api(factories.desk()).post("approvals/batches/", {}).status == 403


def test_in_the_inbox_what_is_ticked_is_approved_as_it_stood() -> None:
    chosen, left = factories.inspected(), factories.inspected()
    manager = signed_in(factories.manager())
    inbox = manager.get("/approvals/")
    box = f"{chosen}:{chosen.version}:{ALL_MINOR}"
    assert f'value="{box}"' in inbox.content.decode()
    fields = {**form_on(inbox, "/approvals/batches/"), "chosen": [box]}
    page = manager.post("/approvals/batches/", fields, follow=True)
    assert "being approved 1" in text_of(page)
    manager.post("/approvals/batches/", fields)
    batch = ApprovalBatch.objects.get()
    tasks.approve_batch(batch.pk)
    assert "Approved" in text_of(manager.get(f"/approvals/batches/{batch.token}/"))
    assert factories.fresh(chosen).state == OperationState.RESERVED
    assert factories.fresh(left).state == OperationState.INSPECTED


@pytest.mark.parametrize("chosen", [[], ["R-1"], ["R-999:1:100"], ["R-1:1:x"]])
def test_in_the_inbox_an_odd_choice_says_what_to_do(chosen: list[str]) -> None:
    manager = signed_in(factories.manager())
    posted = {"token": str(uuid4()), "chosen": chosen}
    with nothing_changes():
        page = manager.post("/approvals/batches/", posted, follow=True)
    said = text_of(page)
    assert "Choose at least one return" in said or "do not exist" in said


def test_the_page_of_a_batch_costs_the_same_however_long_it_is() -> None:
    manager = signed_in(factories.manager())
    small, large = opened(factories.inspected()), opened(*(factories.inspected() for _ in range(5)))
    costs = {queries_of(manager, f"/approvals/batches/{one.token}/") for one in (small, large)}
    assert len(costs) == 1


def test_only_managers_see_it() -> None:
    batch = opened(factories.inspected())
    assert signed_in(factories.desk()).get(f"/approvals/batches/{batch.token}/").status_code == 403
    assert signed_in(factories.manager()).get(f"/approvals/batches/{uuid4()}/").status_code == 404


def test_what_a_person_hands_over_is_counted_as_that() -> None:
    order = factories.OrderFactory.create(tenders=[factories.cash(ALL_MINOR)])
    batch = opened(factories.inspected(order))
    tasks.approve_batch(batch.pk)
    counts = batches.counts(batch)
    assert (counts.for_a_person, counts.unfinished) == (1, 0)
    page = signed_in(factories.manager()).get(f"/approvals/batches/{batch.token}/")
    assert "for a person 1" in text_of(page)


def test_what_is_withdrawn_after_the_first_of_two_approvals_is_not_on_its_way() -> None:
    line = factories.line(price_minor=6_000_00)
    operation = factories.inspected(factories.OrderFactory.create(lines=[line]))
    batch = batches.open_batch(
        token=uuid4(), by=factories.manager(), decisions=[yes_to(operation, 6_000_00)]
    )
    tasks.approve_batch(batch.pk)
    assert batches.counts(batch).owed == 1, "a second manager has to agree"
    withdraw(operation_key=operation.operation_key, by=factories.desk(), reason="keeps it")
    counts = batches.counts(batch)
    assert (counts.ended, counts.owed, counts.unfinished) == (1, 0, 0)


def test_one_that_fails_for_no_known_reason_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    poison, other = factories.inspected(), factories.inspected()
    batch = opened(poison, other)

    def approve_or_break(*, operation_key: UUID, **asked: Any) -> RefundOperation:
        if operation_key == poison.operation_key:
            raise ZeroDivisionError
        return approve(operation_key=operation_key, **asked)

    monkeypatch.setattr(batches, "approve", approve_or_break)
    assert tasks.approve_batch(batch.pk) == 1
    assert outcomes(batch) == [Outcome.WAITING, Outcome.APPROVED]
