"""What the outcome of a payment does: settle it, release it, keep it in doubt, take it back."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from payments import outbound
from payments.capabilities import capabilities_of
from payments.models import PaymentAttempt, PaymentTask
from payments.outbound import Claim
from payments.outcomes import Accepted, Outcome, Refused, Settled, Unknown
from payments.protocol import Verdict
from payments.reservation import Part, shift
from returns import locking, timeline
from returns.errors import Invalid, WrongState
from returns.models import OrderBalance, RefundOperation
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.states import TASK_FINAL, OperationState, TaskState
from returns.timeline import refusals_are_recorded

_TOLD = {
    Verdict.SUCCEED: "paid",
    Verdict.ACCEPT: "at_the_provider",
    Verdict.DECLINE: "declined",
    Verdict.DOUBT: "no_answer",
    Verdict.PARK: "set_aside",
}


_ASKED_ABOUT_IN = frozenset(
    {
        TaskState.PENDING,
        TaskState.UNKNOWN,
        TaskState.ACCEPTED,
        TaskState.STUCK,
        TaskState.SUCCEEDED,
    }
)


@database_work_is_retried
def record(*, task_id: int, claim: Claim, outcome: Outcome) -> bool:
    """Write what a call ended in and carry out what it means.

    Returns False, having written nothing, when the worker's lease was taken in the meantime.
    """
    with transaction.atomic():
        balance, operation, task = lock_task(task_id)
        if not outbound.holds(task, claim):
            return False
        outcome = only_its_own(task, outcome)
        before = task.state
        judgement = outbound.record(
            task, PaymentAttempt, claim, outcome, capabilities_of(task.provider)
        )
        take_effect(balance, operation, task, before, judgement.verdict, outcome)
    return True


def take_effect(
    balance: OrderBalance,
    operation: RefundOperation,
    task: PaymentTask,
    before: str,
    verdict: Verdict,
    outcome: Outcome,
    by: User | None = None,
) -> None:
    """Move money and operation after a task has moved; the caller holds all three locks."""
    if verdict in (Verdict.SUCCEED, Verdict.ACCEPT) and isinstance(outcome, Settled | Accepted):
        _remember_reference(task, outcome)
    if verdict is Verdict.GIVE_BACK:
        _money_came_back(balance, operation, task)
    if verdict in _TOLD and task.state != before:
        _tell(operation, task, before, _TOLD[verdict], by)
    if verdict is Verdict.SUCCEED:
        shift(balance, [_part(task)], reserved=-1, refunded=1)
        operation.refunded_minor += task.amount_minor
        if not _finish_round(balance, operation):
            operation.save_change("refunded_minor")
    elif verdict is Verdict.DECLINE:
        _finish_round(balance, operation)


@database_work_is_retried
def ask_again(*, task_id: int, by: User) -> PaymentTask:
    """A person wants the provider asked now; also wakes a payment that was set aside.

    One that has succeeded is verified: should the provider say that it failed after all, the
    money is owed again. Raises NotAllowed (role). What was declined or came back, and what is
    just being sent, is left as it is.
    """
    require(by, "ask_provider")
    with transaction.atomic():
        _, operation, task = lock_task(task_id)
        before = task.state
        if may_be_asked_about(task):
            outbound.look_now(task, timezone.now())
            _tell(operation, task, before, "ask_again", by)
    return task


def may_be_asked_about(task: PaymentTask) -> bool:
    """Whether the provider could still tell us something about this payment."""
    return task.state in _ASKED_ABOUT_IN and not capabilities_of(task.provider).by_person


@refusals_are_recorded("declare_unpaid")
@database_work_is_retried
def declare_unpaid(*, task_id: int, by: User, reason: str) -> PaymentTask:
    """A person decides that a payment has certainly not been made; the amount is owed again.

    Of a payment that was set aside only where a look-up agrees, made when nothing could be under
    way; of one that a person hands over while nobody has begun to. The same decision again
    changes nothing. Raises NotAllowed (role), Invalid without a reason, WrongState where the
    proof is missing.
    """
    require(by, "declare_unpaid")
    if not reason.strip():
        raise Invalid({"reason": "Say what shows that the money has not left."})
    with transaction.atomic():
        balance, operation, task = lock_task(task_id)
        if task.state == TaskState.DECLINED:
            return task
        _refuse_unproven(task)
        before = task.state
        outbound.move(task, timezone.now(), Verdict.DECLINE, last_answer=reason)
        outcome = Refused("declared", reason)
        take_effect(balance, operation, task, before, Verdict.DECLINE, outcome, by)
    return task


def _refuse_unproven(task: PaymentTask) -> None:
    if task.state == TaskState.PENDING and capabilities_of(task.provider).by_person:
        return
    if task.state != TaskState.STUCK:
        raise WrongState("Only a payment that was set aside is decided on.", state=task.state)
    if not outbound.proven_undone(task, capabilities_of(task.provider)):
        raise WrongState(
            "No look-up has shown yet that the money has not left. Ask the provider again first.",
            state=task.state,
        )


def _money_came_back(balance: OrderBalance, operation: RefundOperation, task: PaymentTask) -> None:
    """The provider or the bank returned a confirmed payment: it is owed again."""
    _tell(operation, task, TaskState.SUCCEEDED, "came_back", None)
    shift(balance, [_part(task)], refunded=-1)
    operation.refunded_minor -= task.amount_minor
    before = operation.state
    if before in (OperationState.PAID, OperationState.POSTED):
        operation.reopen()
    operation.save_change("refunded_minor")
    if operation.state != before:
        _tell_state(operation, "reopen", before)


def lock_task(task_id: int) -> tuple[OrderBalance, RefundOperation, PaymentTask]:
    """Lock balance, operation and task, in the lock order."""
    operation_id = PaymentTask.objects.values_list("operation_id", flat=True).get(pk=task_id)
    balance, operation = locking.lock_operation(pk=operation_id)
    rows = PaymentTask.objects.select_related("tender").filter(pk=task_id)
    return balance, operation, locking.lock_rows(rows)[0]


def only_its_own(task: PaymentTask, outcome: Outcome) -> Outcome:
    """The outcome, unless its reference belongs to another payment: that proves nothing here."""
    if not isinstance(outcome, Settled | Accepted):
        return outcome
    if task.provider_refund not in (None, outcome.reference):
        return Unknown(f"a second refund {outcome.reference} appeared", "more_than_one_payment")
    others = PaymentTask.objects.filter(
        provider=task.provider, provider_refund=outcome.reference
    ).exclude(pk=task.pk)
    if others.exists():
        return Unknown(f"{outcome.reference} belongs to another payment", "reference_not_ours")
    return outcome


def _remember_reference(task: PaymentTask, outcome: Settled | Accepted) -> None:
    if task.provider_refund is None:
        task.provider_refund = outcome.reference
        PaymentTask.objects.filter(pk=task.pk).update(provider_refund=outcome.reference)


def _part(task: PaymentTask) -> Part:
    return Part(task.tender, task.amount_minor)


def _finish_round(balance: OrderBalance, operation: RefundOperation) -> bool:
    """When every payment of the round is final: the operation is paid, or what failed is freed."""
    tasks = list(
        operation.payments.filter(generation=operation.pay_rounds).select_related("tender")
    )
    if operation.state != OperationState.RESERVED or any(t.state not in TASK_FINAL for t in tasks):
        return False
    declined = [_part(task) for task in tasks if task.state == TaskState.DECLINED]
    if declined:
        shift(balance, declined, reserved=-1)
    if operation.outstanding_minor == 0:
        operation.settle()
        verb = "settle"
    else:
        operation.release()
        verb = "release"
    operation.save_change("refunded_minor")
    _tell_state(operation, verb, OperationState.RESERVED)
    return True


def _tell_state(operation: RefundOperation, verb: str, before: str) -> None:
    timeline.write(
        operation,
        verb,
        by=None,
        from_state=before,
        to_state=operation.state,
        amount_minor=operation.amount_minor,
        refunded_minor=operation.refunded_minor,
    )


def _tell(
    operation: RefundOperation, task: PaymentTask, before: str, verb: str, by: User | None
) -> None:
    facts: dict[str, Any] = {
        "payment": task.pk,
        "payment_state": [before, task.state],
        "amount_minor": task.amount_minor,
        "wire_key": str(task.wire_key),
        "provider_refund": task.provider_refund,
        "answer": task.last_answer,
    }
    timeline.write(operation, verb, by=by, **facts)
