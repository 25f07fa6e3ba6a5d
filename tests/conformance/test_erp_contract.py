"""What every ERP's adapter must make of each thing that can happen: a refusal, or not known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pytest_django import Settings

from config.ports import HOST, any_free
from reconciliation.dispatch import DUPLICATE
from reconciliation.erp.base import Credit, Entry, Erp, ErpRefused, ErpUnknown
from tests.conformance.conftest import ErpBench
from tests.conformance.fault_proxy import APPLIED, NOT_APPLIED, Mode

SPOILT = [*NOT_APPLIED, *APPLIED, Mode.RATE_LIMIT]
MORE_THAN_A_PAGE = 101
CALL_SECONDS = 4


def credit(**facts: Any) -> Credit:
    """A credit of 48.00 USD under a reference of its own, or what is given instead."""
    ordinary = Credit(
        reference=uuid4(),
        order="W0000001",
        amount_minor=4800,
        currency="USD",
        refunded_on=date(2026, 3, 31),
        description="Refund R-2841 of order W0000001",
    )
    return replace(ordinary, **facts)


def today() -> date:
    return datetime.now(UTC).date()


# The ordinary way.


def test_a_credit_is_a_draft_until_it_is_posted(books: ErpBench) -> None:
    wanted = credit()
    draft = books.adapter.create_draft(wanted)
    assert draft == Entry(draft.entry, str(wanted.reference), 4800, "USD", posted=False)
    assert books.booked(wanted.reference) == [draft]
    posted = books.adapter.post(draft.entry)
    assert posted == replace(draft, posted=True)
    assert books.booked(wanted.reference) == books.adapter.find(wanted.reference) == [posted]


def test_amounts_are_minor_units_of_every_currency(books: ErpBench) -> None:
    for currency in books.counterpart.currencies:
        wanted = credit(currency=currency, amount_minor=18_601)
        draft = books.adapter.create_draft(wanted)
        assert (draft.amount_minor, draft.currency) == (18_601, currency)
        assert books.booked(wanted.reference) == books.adapter.find(wanted.reference) == [draft]


def test_a_reference_that_nobody_used_has_no_entries(books: ErpBench) -> None:
    assert books.adapter.find(uuid4()) == []


def test_a_period_lists_what_was_written_in_it_over_all_pages(books: ErpBench) -> None:
    adapter = books.adapter
    written = [adapter.create_draft(credit()) for _ in range(MORE_THAN_A_PAGE)]
    written[0] = adapter.post(written[0].entry)
    listed = list(adapter.entries(today(), today()))
    assert [entry for entry in listed if entry in written] == written
    yesterday = today() - timedelta(days=1)
    assert not set(written) & set(adapter.entries(yesterday, yesterday))


# Done twice.


def test_a_second_entry_is_refused_as_a_duplicate_or_is_found_behind_the_first(
    books: ErpBench,
) -> None:
    wanted = credit()
    first = books.adapter.create_draft(wanted)
    if books.counterpart.unique_reference:
        with pytest.raises(ErpRefused) as refusal:
            books.adapter.create_draft(wanted)
        assert refusal.value.code == DUPLICATE
        assert books.booked(wanted.reference) == [first]
    else:
        others = [books.adapter.create_draft(wanted) for _ in range(MORE_THAN_A_PAGE)]
        assert books.adapter.find(wanted.reference) == [first, *others]


def test_posting_what_is_posted_is_read_not_failed(books: ErpBench) -> None:
    draft = books.adapter.create_draft(credit())
    assert books.adapter.post(draft.entry) == books.adapter.post(draft.entry)


def test_deleting_what_is_gone_is_fine_and_posting_it_is_refused(books: ErpBench) -> None:
    wanted = credit()
    draft = books.adapter.create_draft(wanted)
    books.adapter.delete_draft(draft.entry)
    books.adapter.delete_draft(draft.entry)
    assert books.booked(wanted.reference) == []
    with pytest.raises(ErpRefused) as refusal:
        books.adapter.post(draft.entry)
    assert refusal.value.reason


def test_what_is_posted_is_never_deleted(books: ErpBench) -> None:
    wanted = credit()
    posted = books.adapter.post(books.adapter.create_draft(wanted).entry)
    with pytest.raises(ErpRefused):
        books.adapter.delete_draft(posted.entry)
    assert books.booked(wanted.reference) == [posted]


# No answer, or none that can be understood.


@pytest.mark.parametrize("mode", SPOILT)
def test_a_draft_without_a_clear_answer_is_unknown_and_asked_for_once(
    books: ErpBench, mode: Mode
) -> None:
    wanted = credit()
    books.proxy.fault(mode, books.counterpart.creates)
    with pytest.raises(ErpUnknown):
        books.adapter.create_draft(wanted)
    assert len(books.proxy.requests(books.counterpart.creates)) == 1
    assert len(books.booked(wanted.reference)) == (mode in APPLIED)


@pytest.mark.parametrize("mode", SPOILT)
def test_posting_without_a_clear_answer_is_unknown(books: ErpBench, mode: Mode) -> None:
    wanted = credit()
    draft = books.adapter.create_draft(wanted)
    books.proxy.fault(mode, books.counterpart.posts)
    with pytest.raises(ErpUnknown):
        books.adapter.post(draft.entry)
    assert books.booked(wanted.reference) == [replace(draft, posted=mode in APPLIED)]


@pytest.mark.parametrize("mode", [Mode.DROP_BEFORE, Mode.ERROR_BEFORE, Mode.RATE_LIMIT])
def test_deleting_without_a_clear_answer_is_unknown(books: ErpBench, mode: Mode) -> None:
    wanted = credit()
    draft = books.adapter.create_draft(wanted)
    books.proxy.fault(mode, books.counterpart.deletes)
    with pytest.raises(ErpUnknown):
        books.adapter.delete_draft(draft.entry)
    assert books.booked(wanted.reference) == [draft]


@pytest.mark.parametrize("mode", SPOILT)
@pytest.mark.parametrize(
    "look",
    [lambda erp: erp.find(uuid4()), lambda erp: list(erp.entries(today(), today()))],
    ids=["find", "entries"],
)
def test_a_look_up_without_a_clear_answer_is_unknown_never_empty(
    books: ErpBench, look: Callable[[Erp], list[Entry]], mode: Mode
) -> None:
    books.proxy.fault(mode, books.counterpart.looks_up)
    with pytest.raises(ErpUnknown):
        look(books.adapter)


def test_an_answer_that_takes_too_long_is_unknown_and_not_waited_for(
    books: ErpBench, settings: Settings
) -> None:
    settings.OUTBOUND_TIMING = {**settings.OUTBOUND_TIMING, "call_seconds": CALL_SECONDS}
    wanted, adapter = credit(), books.adapter
    books.proxy.fault(Mode.SLOW, books.counterpart.creates, seconds=30)
    began = time.monotonic()
    with pytest.raises(ErpUnknown):
        adapter.create_draft(wanted)
    assert time.monotonic() - began < CALL_SECONDS
    assert len(books.booked(wanted.reference)) == 1


def test_nobody_listening_is_unknown(books: ErpBench, settings: Settings) -> None:
    for name, value in books.counterpart.settings(f"http://{HOST}:{any_free()}").items():
        setattr(settings, name, value)
    for call in (lambda: books.adapter.find(uuid4()), lambda: books.adapter.create_draft(credit())):
        with pytest.raises(ErpUnknown):
            call()


def test_a_request_that_arrives_late_is_unknown_first_and_found_afterwards(
    books: ErpBench,
) -> None:
    """Why looking up before creating is not enough: the look-up in between sees nothing."""
    wanted = credit()
    books.proxy.fault(Mode.LATE, books.counterpart.creates)
    with pytest.raises(ErpUnknown):
        books.adapter.create_draft(wanted)
    assert books.adapter.find(wanted.reference) == []
    books.proxy.let_arrive()
    assert len(books.adapter.find(wanted.reference)) == 1
