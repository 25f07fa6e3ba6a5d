"""The adapter of the sandbox ERP, against the process itself: refusals apart from lost answers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from pytest_django import Settings

from config.ports import HOST, any_free
from reconciliation.erp.base import Credit, Entry, ErpRefused, ErpUnknown
from reconciliation.erp.sandbox import SandboxErp as Adapter
from tests.sandboxes import SandboxErp

REFERENCE = UUID("8d3c0b6e-8f0e-5d0a-9a3e-0d4d3b1f2c11")


def credit(**facts: Any) -> Credit:
    """A credit of 48.00 USD, or what is given instead."""
    ordinary = Credit(
        reference=REFERENCE,
        order="W0000001",
        amount_minor=4800,
        currency="USD",
        refunded_on=date(2026, 3, 31),
        description="Refund R-2841 of order W0000001",
    )
    return replace(ordinary, **facts)


def answering(status: int, body: object) -> Adapter:
    """The adapter with an ERP that gives this one answer to everything."""
    text = body if isinstance(body, str) else json.dumps(body)
    adapter = Adapter()
    adapter._client = httpx.Client(
        base_url="http://erp",
        transport=httpx.MockTransport(lambda _: httpx.Response(status, text=text)),
    )
    return adapter


def test_a_credit_is_a_draft_until_it_is_posted(erp: SandboxErp) -> None:
    draft = Adapter().create_draft(credit())
    assert draft == Entry("1", str(REFERENCE), 4800, "USD", posted=False)
    assert Adapter().post(draft.entry) == replace(draft, posted=True)
    (entry,) = erp.entries()
    assert (entry["amount"], entry["refunded_on"]) == ("48.00", "2026-03-31")
    assert (entry["order"], entry["description"]) == ("W0000001", "Refund R-2841 of order W0000001")
    assert entry["date"] == datetime.now(UTC).date().isoformat(), "posted today, not back-dated"


@pytest.mark.parametrize(
    ("currency", "amount_minor", "text"),
    [("JPY", 5800, "5800"), ("KWD", 18_600, "18.600"), ("EUR", 1, "0.01")],
)
def test_amounts_cross_over_in_major_units_and_come_back_exact(
    erp: SandboxErp, currency: str, amount_minor: int, text: str
) -> None:
    draft = Adapter().create_draft(credit(currency=currency, amount_minor=amount_minor))
    assert erp.entries()[0]["amount"] == text
    assert (draft.amount_minor, draft.currency) == (amount_minor, currency)
    assert Adapter().find(REFERENCE) == [draft]


def test_every_entry_of_a_reference_is_found_over_all_pages_lowest_first(erp: SandboxErp) -> None:
    erp.unique_reference(False)
    adapter = Adapter()
    drafts = [adapter.create_draft(credit()) for _ in range(101)]
    adapter.create_draft(credit(reference=uuid4()))
    assert adapter.find(REFERENCE) == drafts
    assert adapter.find(uuid4()) == []


def test_a_period_lists_what_was_written_in_it(erp: SandboxErp) -> None:
    draft = Adapter().create_draft(credit())
    today = datetime.now(UTC).date()
    assert list(Adapter().entries(today, today)) == [draft]
    yesterday = today - timedelta(days=1)
    assert list(Adapter().entries(yesterday, yesterday)) == []


def test_a_second_entry_is_refused_where_references_are_unique(erp: SandboxErp) -> None:
    Adapter().create_draft(credit())
    with pytest.raises(ErpRefused) as refusal:
        Adapter().create_draft(credit())
    assert refusal.value.code == "duplicate_reference"
    assert len(erp.entries()) == 1


def test_posting_what_is_posted_is_read_not_failed(erp: SandboxErp) -> None:
    draft = Adapter().create_draft(credit())
    assert Adapter().post(draft.entry) == Adapter().post(draft.entry)
    assert [entry["state"] for entry in erp.entries()] == ["posted"]


def test_posting_what_is_gone_is_refused(erp: SandboxErp) -> None:
    with pytest.raises(ErpRefused) as refusal:
        Adapter().post("7")
    assert refusal.value.code == "not_found"


def test_only_drafts_can_be_deleted_and_a_missing_one_is_fine(erp: SandboxErp) -> None:
    erp.unique_reference(False)
    posted, draft = (Adapter().create_draft(credit()) for _ in range(2))
    Adapter().post(posted.entry)
    Adapter().delete_draft(draft.entry)
    Adapter().delete_draft(draft.entry)
    with pytest.raises(ErpRefused):
        Adapter().delete_draft(posted.entry)
    assert [entry["id"] for entry in erp.entries()] == [1]


@pytest.mark.parametrize(
    ("fault", "entries"),
    [
        ("drop_before", 0),
        ("drop_after", 1),
        ("error_before", 0),
        ("error_after", 1),
        ("garbage_after", 1),
        ("rate_limit", 0),
        ("unauthorized", 0),
    ],
)
def test_without_a_clear_answer_it_is_unknown(erp: SandboxErp, fault: str, entries: int) -> None:
    erp.fault(fault)
    with pytest.raises(ErpUnknown):
        Adapter().create_draft(credit())
    assert len(erp.entries()) == entries


def test_an_answer_that_takes_too_long_is_unknown(erp: SandboxErp, settings: Settings) -> None:
    settings.OUTBOUND_TIMING = {**settings.OUTBOUND_TIMING, "call_seconds": 2}
    erp.fault("slow", seconds=30)
    with pytest.raises(ErpUnknown):
        Adapter().create_draft(credit())
    assert len(erp.entries()) == 1


def test_nobody_listening_is_unknown(settings: Settings) -> None:
    settings.ERP_URL = f"http://{HOST}:{any_free()}"
    with pytest.raises(ErpUnknown):
        Adapter().find(REFERENCE)


@pytest.mark.parametrize("fault", ["refuse", "closed_period"])
def test_a_refusal_says_why(erp: SandboxErp, fault: str) -> None:
    erp.fault(fault)
    with pytest.raises(ErpRefused) as refusal:
        Adapter().create_draft(credit())
    assert refusal.value.code == "refused"
    assert refusal.value.reason
    assert erp.entries() == []


ODD = [
    "",
    "[]",
    "null",
    "{}",
    {"data": None, "has_more": False},
    {"data": [{}], "has_more": False},
    {"data": []},
    {"data": [{"id": 1, "reference": "x", "amount": 4.8, "currency": "USD", "state": "posted"}]},
]


@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_an_answer_of_an_odd_shape_is_unknown_never_absent(body: object) -> None:
    with pytest.raises(ErpUnknown):
        answering(200, body).find(REFERENCE)
    with pytest.raises(ErpUnknown):
        answering(200, body).create_draft(credit())


@pytest.mark.parametrize("body", ["[]", '"no"', "<html>"])
def test_a_refusal_of_an_odd_shape_is_unknown(body: str) -> None:
    with pytest.raises(ErpUnknown):
        answering(400, body).create_draft(credit())
