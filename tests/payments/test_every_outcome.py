"""Everything that can become of one payment: what it leads to at once, and how it ends.

Each row is one fault of the provider, with the real SDK over real HTTP: the state of the payment
right after the first call, that of its operation, the words that staff read, the item that finance
gets, how often money left in the end, and where payment and operation end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from payments import dispatch, webhooks
from payments.models import PaymentTask
from payments.providers.stripe import ALARMS
from payments.settlement import ask_again
from reconciliation.mismatches import KIND_OF_CREDIT_WORD, KIND_OF_PAYMENT_WORD
from reconciliation.models import Mismatch
from reconciliation.sweeping import sweep
from returns import next_steps, wording
from returns.models import RefundOperation
from returns.queries import operation_by_key
from returns.states import OperationState, TaskState
from tests import factories
from tests.events import signed
from tests.payments.reading import DAY, operation_of, reserved_payment, stored
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass, run_until_done

pytestmark = pytest.mark.django_db(transaction=True)

UNKNOWN, ACCEPTED, PENDING = TaskState.UNKNOWN, TaskState.ACCEPTED, TaskState.PENDING
PAID, DECLINED, RETURNED, STUCK = (
    *(TaskState.SUCCEEDED, TaskState.DECLINED, TaskState.RETURNED, TaskState.STUCK),
)
RESERVED, APPROVED, POSTED = (
    *(OperationState.RESERVED, OperationState.APPROVED, OperationState.POSTED),
)
Kind = Mismatch.Kind

BEING_CHECKED = "The provider is being asked what became of the payment"
ON_ITS_WAY = "The payment is on its way; nothing to do"
FINANCE_FIRST = "Finance must look first: the customer may have the money already"
OWED_AGAIN = "The last payment did not work; a manager approves it again"
DONE = "Done: paid and in the books"
A_PERSON = "A person must look at the payment"
PAID_WORDS = "Paid; the books follow by themselves"

Deed = Callable[[SandboxProvider, PaymentTask], Any]


@dataclass(frozen=True)
class Case:
    """One fault and all that must follow."""

    faults: tuple[dict[str, Any], ...]
    at_once: tuple[TaskState, OperationState, str]
    end: tuple[TaskState, OperationState, str]
    money_out: int = 1
    item: str = ""
    attention: str = ""
    before: tuple[Deed, ...] = ()
    meanwhile: tuple[Deed, ...] = field(default=())


def fault(mode: str, **options: Any) -> dict[str, Any]:
    return {"mode": mode, **options}


def refund_elsewhere(provider: SandboxProvider, task: PaymentTask) -> None:
    """Somebody refunds all of it in the provider's own pages."""
    answer = httpx.post(
        f"{provider.url}/v1/refunds",
        data={"payment_intent": task.tender.payment},
        headers={"Authorization": "Bearer sk_test"},
    )
    answer.raise_for_status()


def move(status: str) -> Deed:
    def bank(provider: SandboxProvider, _: PaymentTask) -> None:
        (refund,) = provider.ledger()
        provider.move_refund(refund["refund"], status)

    return bank


def days_pass(seconds: float) -> Deed:
    def pass_by(provider: SandboxProvider, _: PaymentTask) -> None:
        provider.advance_clock(seconds)
        let_pass(seconds)

    return pass_by


def verify(_: SandboxProvider, task: PaymentTask) -> None:
    """Somebody has the provider asked about a payment that had succeeded."""
    ask_again(task_id=task.pk, by=factories.finance())


def hear_everything(provider: SandboxProvider, _: PaymentTask) -> None:
    """Every event of the provider arrives."""
    for told in provider.events():
        body, headers = signed(told["event"])
        webhooks.receive(name="stripe", body=body.encode(), headers=headers)


def a_day_without_an_answer(provider: SandboxProvider, _: PaymentTask) -> None:
    """Look-ups fail until the provider has forgotten the key."""
    provider.fault("error_before", match="GET /v1/refunds", times=1)
    days_pass(DAY - 60 * 60)(provider, _)
    sweep(threads=1)


LOST = ((UNKNOWN, RESERVED, BEING_CHECKED), (PAID, POSTED, DONE))

CASES: dict[str, Case] = {
    "all goes well": Case((), (PAID, OperationState.PAID, PAID_WORDS), (PAID, POSTED, DONE)),
    "dropped before it arrived": Case((fault("drop_before"),), *LOST),
    "dropped after it was done": Case((fault("drop_after"),), *LOST),
    "500 before": Case((fault("error_before"),), *LOST),
    "500 after": Case((fault("error_after"),), *LOST),
    "an answer that is none": Case((fault("garbage_after"),), *LOST),
    "slower than we wait": Case((fault("slow", seconds=3),), *LOST),
    "arrives late": Case((fault("late", seconds=0.5),), *LOST),
    "too many requests": Case(
        (fault("rate_limit", seconds=30),), (PENDING, RESERVED, ON_ITS_WAY), (PAID, POSTED, DONE)
    ),
    "declined": Case(
        (fault("decline"),),
        (DECLINED, APPROVED, OWED_AGAIN),
        (DECLINED, APPROVED, OWED_AGAIN),
        money_out=0,
    ),
    "pending for days, then paid": Case(
        (fault("pending"),),
        (ACCEPTED, RESERVED, ON_ITS_WAY),
        (PAID, POSTED, DONE),
        meanwhile=(days_pass(3 * DAY), move("succeeded")),
    ),
    "pending for days, then failed": Case(
        (fault("pending"),),
        (ACCEPTED, RESERVED, ON_ITS_WAY),
        (DECLINED, APPROVED, OWED_AGAIN),
        money_out=0,
        meanwhile=(days_pass(3 * DAY), move("failed")),
    ),
    "failed after success": Case(
        (),
        (PAID, OperationState.PAID, PAID_WORDS),
        (RETURNED, APPROVED, OWED_AGAIN),
        money_out=0,
        item=Kind.RETURNED_AFTER_SUCCESS,
        attention="The money came back after it had been paid.",
        meanwhile=(move("failed"), verify),
    ),
    "the key is forgotten, and the refund found": Case(
        (fault("drop_after"),),
        LOST[0],
        (PAID, POSTED, DONE),
        meanwhile=(a_day_without_an_answer,),
    ),
    "the key is forgotten, and nothing found": Case(
        (fault("drop_before"),),
        LOST[0],
        (STUCK, RESERVED, A_PERSON),
        money_out=0,
        item=Kind.STUCK_PAYMENT,
        attention="The provider may have forgotten our key, so nothing is sent again.",
        meanwhile=(a_day_without_an_answer,),
    ),
    "the same amount a moment ago": Case(
        (fault("same_amount"),), (PENDING, RESERVED, ON_ITS_WAY), (PAID, POSTED, DONE)
    ),
    "refunded already, by somebody else": Case(
        (),
        (DECLINED, APPROVED, FINANCE_FIRST),
        (DECLINED, APPROVED, FINANCE_FIRST),
        money_out=0,
        item=Kind.PAYMENT_WITHOUT_OPERATION,
        attention="The provider says this has been refunded already, and not by us.",
        before=(refund_elsewhere,),
        meanwhile=(hear_everything,),
    ),
    "the shop's balance is too low": Case(
        (fault("insufficient_balance"),),
        (DECLINED, APPROVED, OWED_AGAIN),
        (DECLINED, APPROVED, OWED_AGAIN),
        money_out=0,
    ),
    "the customer's bank has the charge": Case(
        (fault("disputed"),),
        (DECLINED, APPROVED, FINANCE_FIRST),
        (DECLINED, APPROVED, FINANCE_FIRST),
        money_out=0,
        item=Kind.CHARGEBACK_BESIDE_REFUND,
        attention="The customer's bank has taken this payment back.",
    ),
    "our credentials are refused": Case(
        (fault("unauthorized"),),
        (PENDING, RESERVED, ON_ITS_WAY),
        (PAID, POSTED, DONE),
    ),
}


def words(operation: RefundOperation) -> str:
    row = operation_by_key(operation.operation_key)
    assert row is not None
    return str(next_steps.next_step_of(row).label)


def standing(task: PaymentTask) -> tuple[str, str, str]:
    operation = operation_of(task)
    return stored(task).state, operation.state, words(operation)


@pytest.mark.parametrize("name", CASES)
def test_every_outcome_leads_where_it_must(
    name: str, provider: SandboxProvider, erp: SandboxErp, settings: Any
) -> None:
    case = CASES[name]
    settings.OUTBOUND_TIMING = {"lease_seconds": 16, "call_seconds": 4, "margin_seconds": 3}
    task = reserved_payment(provider)
    for deed in case.before:
        deed(provider, task)
    for ordered in case.faults:
        provider.fault(**ordered)
    dispatch.pay(task.pk)
    assert standing(task) == case.at_once

    for deed in case.meanwhile:
        deed(provider, task)
    run_until_done(provider, within_seconds=6 * 60 * 60)
    assert standing(task) == case.end

    ours = [out for out in provider.ledger() if out["idempotency_key"] == str(task.wire_key)]
    assert [out["amount"] for out in ours if out["status"] == "succeeded"] == (
        [task.amount_minor] * case.money_out
    )
    sweep(threads=1)
    items = Mismatch.objects.filter(payment=task, status=Mismatch.Status.OPEN)
    assert [item.kind for item in items] == ([case.item] if case.item else [])
    assert wording.of_attention(stored(task).attention) == case.attention


def test_every_word_of_alarm_is_a_sentence_for_people() -> None:
    """What adapters and protocol say in a word of theirs, staff read in words of theirs."""
    written = {
        word
        for app in ("payments", "reconciliation")
        for source in Path(app).rglob("*.py")
        for word in re.findall(r"(?:attention|alarm)=\"([a-z_]+)\"", source.read_text())
    }
    named = {*KIND_OF_PAYMENT_WORD, *KIND_OF_CREDIT_WORD, *ALARMS.values(), *written}
    assert named - wording.ATTENTION.keys() == set()
