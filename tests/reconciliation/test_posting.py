"""Credits in the books: one posted entry per paid operation, whatever gets lost on the way."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest
from django.db import transaction

from payments.sandbox.journal import JsonObject
from reconciliation import dispatch, mismatches
from reconciliation.models import ErpPosting, Mismatch, PostingAttempt
from reconciliation.posting import open_postings, try_again
from reconciliation.sweeping import sweep
from reconciliation.tasks import post_operations
from returns.errors import NotAllowed
from returns.models import RefundOperation
from returns.states import OperationState, TaskState
from tests import factories
from tests.sandboxes import Json, SandboxErp, SandboxProvider
from tests.workers import at_once, let_pass

pytestmark = pytest.mark.django_db(transaction=True)

LONG_ENOUGH_SECONDS = 16 * 60


@pytest.fixture
def paid(provider: SandboxProvider, erp: SandboxErp) -> RefundOperation:
    """A return whose 100.00 USD have gone back; its posting is open and waits for its worker."""
    operation = factories.reserved()
    provider.know_payments()
    factories.pay(operation)
    open_postings()
    return factories.fresh(operation)


def posting_of(operation: RefundOperation) -> ErpPosting:
    return ErpPosting.objects.get(operation=operation)


def post(operation: RefundOperation) -> str:
    """What a worker makes of the posting now."""
    post_operations([operation.pk])
    return posting_of(operation).state


def post_later(operation: RefundOperation, seconds: float = 30) -> str:
    let_pass(seconds)
    return post(operation)


def states(erp: SandboxErp) -> list[str]:
    return [entry["state"] for entry in erp.entries()]


def creates(erp: SandboxErp) -> list[Json]:
    """Every request for a new entry that was seen, answered or not."""
    return [
        seen for seen in erp.requests() if (seen["method"], seen["path"]) == ("POST", "/entries")
    ]


def arrives(erp: SandboxErp, create: Json, **changed: str) -> int:
    """A request for a new entry reaches the ERP (once more, or late); the entry's number."""
    body: JsonObject = create["parameters"] | changed
    answer = httpx.post(f"{erp.url}/entries", json=body).raise_for_status()
    return int(answer.json()["id"])


def item(operation: RefundOperation) -> Mismatch:
    """The one item about the operation's credit, looked for again."""
    mismatches.open_new()
    mismatches.close_righted()
    return Mismatch.objects.get(posting__operation=operation)


def assert_posted_once(operation: RefundOperation, erp: SandboxErp) -> None:
    assert factories.fresh(operation).state == OperationState.POSTED
    (entry,) = [entry for entry in erp.entries() if entry["state"] == "posted"]
    assert (entry["reference"], entry["amount"]) == (str(operation.operation_key), "100.00")
    assert posting_of(operation).entry == str(entry["id"])


# The ordinary way.


def test_a_paid_operation_is_credited_under_its_own_key(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    assert post(paid) == TaskState.SUCCEEDED
    assert_posted_once(paid, erp)
    (entry,) = erp.entries()
    assert entry["order"] == paid.order.number
    assert paid.reference in entry["description"]
    assert len(creates(erp)) == 1


def test_the_credit_of_an_older_sale_is_dated_today_with_the_refunds_own_day_beside_it(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    """ER-02: the sale was in March; nothing is written back into March."""
    post(paid)
    today = datetime.now(UTC).date().isoformat()
    (entry,) = erp.entries()
    assert entry["date"] == today
    assert entry["refunded_on"] == posting_of(paid).refunded_on.isoformat()
    assert paid.order.placed_at.date().isoformat() not in entry.values()


def test_opening_postings_again_opens_none(paid: RefundOperation) -> None:
    assert at_once([open_postings] * 4) == [0] * 4
    assert ErpPosting.objects.count() == 1


def test_nothing_is_posted_inside_a_transaction(paid: RefundOperation, erp: SandboxErp) -> None:
    with pytest.raises(RuntimeError, match="inside a transaction"), transaction.atomic():
        dispatch.post(posting_of(paid).pk)
    assert erp.requests() == []


# Lost answers (ER-01); every one of them, to either step: tests/conformance.


def test_a_draft_that_is_found_is_resumed_not_made_again(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    erp.fault("drop_after")
    post(paid)
    assert states(erp) == ["draft"]
    post_later(paid)
    assert_posted_once(paid, erp)
    assert len(creates(erp)) == 1


def test_an_entry_posted_by_somebody_else_is_taken_as_ours(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    erp.fault("drop_after")
    post(paid)
    httpx.post(f"{erp.url}/entries/1/post").raise_for_status()
    post_later(paid)
    assert_posted_once(paid, erp)


def test_an_entry_that_was_there_before_we_sent_is_resumed(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    """After a restore from backup the ERP knows of the credit first: a duplicate is no refusal."""
    facts = {"reference": str(paid.operation_key), "amount": "100.00", "currency": "USD"}
    facts |= {"refunded_on": "2026-03-31", "order": paid.order.number}
    httpx.post(f"{erp.url}/entries", json=facts).raise_for_status()
    assert post(paid) == TaskState.UNKNOWN
    post_later(paid)
    assert_posted_once(paid, erp)


def test_a_draft_that_was_deleted_by_hand_is_made_again(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    erp.fault("error_before", match="/post")
    assert post(paid) == TaskState.ACCEPTED
    httpx.delete(f"{erp.url}/entries/1").raise_for_status()
    post_later(paid)
    assert_posted_once(paid, erp)
    assert len(creates(erp)) == 2


# Where the ERP does not refuse duplicates: drafts, the lowest is kept, late ones are swept.


@pytest.fixture
def lenient(erp: SandboxErp) -> SandboxErp:
    erp.unique_reference(False)
    return erp


def test_a_request_that_arrives_after_posting_leaves_a_draft_that_is_swept(
    paid: RefundOperation, lenient: SandboxErp
) -> None:
    lenient.fault("drop_before")
    post(paid)
    post_later(paid)
    assert_posted_once(paid, lenient)
    arrives(lenient, creates(lenient)[0])
    assert states(lenient) == ["posted", "draft"]

    sweep(threads=1)
    assert states(lenient) == ["posted", "draft"], "others may still be under way"
    let_pass(LONG_ENOUGH_SECONDS)
    assert sweep(threads=1)["late_drafts_deleted"] == 1
    assert states(lenient) == ["posted"]
    let_pass(LONG_ENOUGH_SECONDS)
    assert sweep(threads=1)["late_drafts_deleted"] == 0


def test_tidying_that_gets_no_answer_is_done_later(
    paid: RefundOperation, lenient: SandboxErp
) -> None:
    lenient.fault("drop_before")
    post(paid)
    post_later(paid)
    arrives(lenient, creates(lenient)[0])
    let_pass(LONG_ENOUGH_SECONDS)
    lenient.fault("error_before", match="DELETE /entries/")
    sweep(threads=1)
    assert states(lenient) == ["posted", "draft"]
    sweep(threads=1)
    assert states(lenient) == ["posted"]


def test_of_several_drafts_the_lowest_is_posted_and_the_others_are_deleted_first(
    paid: RefundOperation, lenient: SandboxErp
) -> None:
    lenient.fault("drop_after")
    post(paid)
    for _ in range(2):
        arrives(lenient, creates(lenient)[0])
    post_later(paid)
    assert_posted_once(paid, lenient)
    assert [entry["id"] for entry in lenient.entries()] == [1]
    steps = [seen["method"] for seen in lenient.requests() if seen["path"].startswith("/entries/")]
    assert steps == ["DELETE", "DELETE", "POST"]


def test_nothing_is_posted_while_a_spare_draft_could_not_be_deleted(
    paid: RefundOperation, lenient: SandboxErp
) -> None:
    lenient.fault("drop_after")
    post(paid)
    arrives(lenient, creates(lenient)[0])
    lenient.fault("drop_before", match="DELETE /entries/")
    post_later(paid)
    assert states(lenient) == ["draft", "draft"]
    post_later(paid)
    assert_posted_once(paid, lenient)


def test_a_posted_entry_wins_over_a_lower_draft(paid: RefundOperation, lenient: SandboxErp) -> None:
    lenient.fault("drop_after")
    post(paid)
    second = arrives(lenient, creates(lenient)[0])
    httpx.post(f"{lenient.url}/entries/{second}/post").raise_for_status()
    post_later(paid)
    assert posting_of(paid).entry == str(second)
    let_pass(LONG_ENOUGH_SECONDS)
    sweep(threads=1)
    assert states(lenient) == ["posted"]


def test_two_posted_entries_are_one_item_for_a_person_however_often_we_look(
    paid: RefundOperation, lenient: SandboxErp
) -> None:
    lenient.fault("drop_after")
    post(paid)
    arrives(lenient, creates(lenient)[0])
    for entry in (1, 2):
        httpx.post(f"{lenient.url}/entries/{entry}/post").raise_for_status()
    for _ in range(3):
        post_later(paid, LONG_ENOUGH_SECONDS)
        assert item(paid).kind == Mismatch.Kind.MORE_THAN_ONE_CREDIT
    assert factories.fresh(paid).state == OperationState.PAID
    assert len(creates(lenient)) == 2


# Refusals, and what is never taken for ours.


@pytest.mark.parametrize("step", ["POST /entries", "/post"], ids=["create", "post"])
def test_a_refused_credit_waits_for_a_person_and_the_refund_stays_paid(
    paid: RefundOperation, erp: SandboxErp, step: str
) -> None:
    erp.fault("closed_period", match=step)
    assert post(paid) == TaskState.STUCK
    refused = item(paid)
    assert (refused.kind, refused.status) == (Mismatch.Kind.ERP_REFUSED, "open")
    assert (refused.at_stake_minor, refused.currency) == (10_000, "USD")
    assert "the period is closed" in refused.detail
    assert factories.fresh(paid).state == OperationState.PAID
    assert post_later(paid, LONG_ENOUGH_SECONDS) == TaskState.STUCK, "nobody tries by himself"

    with pytest.raises(NotAllowed):
        try_again(posting_id=posting_of(paid).pk, by=factories.desk())
    try_again(posting_id=posting_of(paid).pk, by=factories.finance())
    post(paid)
    assert_posted_once(paid, erp)
    assert item(paid).resolution == Mismatch.Resolution.RIGHTED


def test_a_refusal_after_a_doubt_reaches_a_person_and_is_not_dropped(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    erp.fault("drop_before")
    erp.fault("closed_period")
    post(paid)
    assert post_later(paid) == TaskState.UNKNOWN, "the first request may still arrive"
    assert post_later(paid, LONG_ENOUGH_SECONDS) == TaskState.STUCK
    assert item(paid).kind == Mismatch.Kind.ERP_REFUSED
    try_again(posting_id=posting_of(paid).pk, by=factories.finance())
    post(paid)
    assert_posted_once(paid, erp)


def test_an_entry_of_another_amount_under_our_reference_is_for_a_person(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    erp.fault("drop_before")
    post(paid)
    arrives(erp, creates(erp)[0], amount="99.00")
    assert post_later(paid) == TaskState.STUCK
    assert states(erp) == ["draft"], "what is not ours is not posted"
    assert item(paid).kind == Mismatch.Kind.CREDIT_AMOUNT_DIFFERS
    assert factories.fresh(paid).state == OperationState.PAID


def test_an_erp_that_does_not_answer_for_an_hour_is_put_before_a_person(
    paid: RefundOperation, erp: SandboxErp
) -> None:
    erp.fault("error_before", match="/entries", times=3)
    post(paid)
    assert not Mismatch.objects.exists()
    post_later(paid, 60 * 60)
    missing = item(paid)
    assert (missing.kind, missing.status) == (Mismatch.Kind.CREDIT_MISSING, "open")
    post_later(paid, LONG_ENOUGH_SECONDS)
    assert item(paid) == missing, "the same doubt is the same item"
    post_later(paid, LONG_ENOUGH_SECONDS)
    assert_posted_once(paid, erp)
    assert item(paid).status == Mismatch.Status.RESOLVED


def test_every_call_is_on_record(paid: RefundOperation, erp: SandboxErp) -> None:
    erp.fault("drop_after")
    post(paid)
    post_later(paid)
    calls = PostingAttempt.objects.order_by("pk").values_list("purpose", "step", "outcome")
    assert list(calls) == [
        ("send", "started", ""),
        ("send", "ended", "unknown"),
        ("ask", "started", ""),
        ("ask", "ended", "settled"),
    ]
