"""What is the sandbox ERP's own in its adapter: its fields, its refusals, odd answers.

What every ERP's adapter must do is tested in tests/conformance, this one included.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import httpx
import pytest

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


def test_refused_credentials_are_unknown_not_refused(erp: SandboxErp) -> None:
    erp.fault("unauthorized")
    with pytest.raises(ErpUnknown):
        Adapter().create_draft(credit())
    assert erp.entries() == []


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
