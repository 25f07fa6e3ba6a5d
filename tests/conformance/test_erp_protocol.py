"""The whole product with each ERP: whatever gets lost or late, one posted entry per refund."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciliation import dispatch
from reconciliation.erp.base import Entry
from reconciliation.models import ErpPosting
from reconciliation.posting import open_postings
from reconciliation.sweeping import sweep
from reconciliation.tasks import post_operations
from returns.models import RefundOperation
from returns.states import OperationState, TaskState
from tests import factories
from tests.conformance.conftest import ErpBench
from tests.conformance.fault_proxy import APPLIED, NOT_APPLIED, Mode
from tests.recovery.conftest import WorkerProcess
from tests.sandboxes import SandboxProvider
from tests.workers import at_once, let_pass, run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

LEASE_SECONDS = 31
# Longer than any request of ours can travel.
LONG_ENOUGH_SECONDS = 16 * 60


@pytest.fixture
def erp(books: ErpBench) -> ErpBench:
    """Whose books the oracle looks at after each test."""
    return books


@pytest.fixture
def paid(provider: SandboxProvider, books: ErpBench) -> RefundOperation:
    """A return whose 100.00 USD have gone back; its posting waits for its worker."""
    operation = factories.reserved()
    provider.know_payments()
    factories.pay(operation)
    open_postings()
    return factories.fresh(operation)


def posting_of(operation: RefundOperation) -> ErpPosting:
    return ErpPosting.objects.get(operation=operation)


def assert_booked_once(books: ErpBench, operation: RefundOperation) -> None:
    """One entry, posted, no draft beside it; doing everything once more changes nothing."""
    assert factories.fresh(operation).state == OperationState.POSTED
    key = operation.operation_key
    posting = posting_of(operation)
    assert books.booked(key) == [Entry(str(posting.entry), str(key), 10_000, "USD", posted=True)]
    post_operations([operation.pk])
    let_pass(LONG_ENOUGH_SECONDS)
    sweep(threads=1)
    assert len(books.booked(key)) == 1


def test_a_refund_goes_from_the_order_to_the_books(
    provider: SandboxProvider, books: ErpBench
) -> None:
    operation = factories.reserved()
    run_until_done(provider)
    assert_booked_once(books, operation)
    assert len(books.proxy.requests(books.counterpart.creates)) == 1
    assert len(books.proxy.requests(books.counterpart.posts)) == 1


@pytest.mark.parametrize("mode", [*NOT_APPLIED, *APPLIED, Mode.RATE_LIMIT])
def test_a_lost_answer_to_either_step_ends_in_one_posted_entry(
    provider: SandboxProvider, books: ErpBench, paid: RefundOperation, mode: Mode
) -> None:
    books.proxy.fault(mode, books.counterpart.creates)
    books.proxy.fault(mode, books.counterpart.posts)
    dispatch.post(posting_of(paid).pk)
    assert posting_of(paid).state == TaskState.UNKNOWN
    assert factories.fresh(paid).state == OperationState.PAID, "no word of it until it is certain"
    run_until_done(provider)
    assert_booked_once(books, paid)


def test_look_ups_that_fail_keep_the_doubt_until_one_answers(
    provider: SandboxProvider, books: ErpBench, paid: RefundOperation
) -> None:
    books.proxy.fault(Mode.DROP_AFTER, books.counterpart.creates)
    for mode in (Mode.DROP_BEFORE, Mode.ERROR_BEFORE, Mode.GARBAGE_AFTER):
        books.proxy.fault(mode, books.counterpart.looks_up)
    run_until_done(provider)
    assert_booked_once(books, paid)
    assert len(books.proxy.requests(books.counterpart.creates)) == 1


def test_a_draft_that_arrives_after_our_look_up_never_becomes_a_second_credit(
    provider: SandboxProvider, books: ErpBench, paid: RefundOperation
) -> None:
    """ER-01: the first request was still running when we looked, and commits when we are done."""
    books.proxy.fault(Mode.LATE, books.counterpart.creates)
    run_until_done(provider)
    assert factories.fresh(paid).state == OperationState.POSTED
    books.proxy.let_arrive()
    states = [entry.posted for entry in books.booked(paid.operation_key)]
    assert states == ([True] if books.counterpart.unique_reference else [True, False])
    let_pass(LONG_ENOUGH_SECONDS)
    sweep(threads=1)
    assert_booked_once(books, paid)


def test_a_draft_that_arrives_before_we_post_is_deleted_first_or_refused(
    provider: SandboxProvider, books: ErpBench, paid: RefundOperation
) -> None:
    books.proxy.fault(Mode.LATE, books.counterpart.creates)
    # The look-up sees nothing, a draft is made, and posting it fails.
    books.proxy.fault(Mode.ERROR_BEFORE, books.counterpart.posts)
    run_until(lambda: bool(books.proxy.requests(books.counterpart.posts)))
    books.proxy.let_arrive()
    run_until_done(provider)
    assert_booked_once(books, paid)


def test_posting_that_arrives_late_posts_nothing_twice(
    provider: SandboxProvider, books: ErpBench, paid: RefundOperation
) -> None:
    books.proxy.fault(Mode.LATE, books.counterpart.posts)
    run_until_done(provider)
    assert factories.fresh(paid).state == OperationState.POSTED
    books.proxy.let_arrive()
    assert_booked_once(books, paid)


def test_killed_between_the_draft_and_its_record_the_draft_is_resumed(
    provider: SandboxProvider,
    books: ErpBench,
    paid: RefundOperation,
    start_worker: Callable[..., WorkerProcess],
) -> None:
    start_worker(
        "reconciliation.dispatch:post",
        posting_of(paid).pk,
        # Undone when the process dies: the outcome was written and not committed.
        stop_at="outcome-written",
        ERP_ADAPTER=books.counterpart.adapter,
        **books.counterpart.settings(books.proxy.url),
    ).reaches("outcome-written").kill()
    assert [entry.posted for entry in books.booked(paid.operation_key)] == [False]
    let_pass(LEASE_SECONDS)
    run_until_done(provider)
    assert_booked_once(books, paid)
    assert len(books.proxy.requests(books.counterpart.creates)) == 1


def test_workers_that_get_the_same_posting_at_once_book_it_once(
    provider: SandboxProvider, books: ErpBench, paid: RefundOperation
) -> None:
    at_once([lambda: dispatch.post(posting_of(paid).pk)] * 4)
    run_until_done(provider)
    assert_booked_once(books, paid)
    assert len(books.proxy.requests(books.counterpart.creates)) == 1


def run_until(reached: Callable[[], bool], passes: int = 20) -> None:
    """Let time pass, half a minute a pass, until it is reached."""
    for _ in range(passes):
        if reached():
            return
        let_pass(30)
        sweep(threads=1)
    pytest.fail("not reached")
