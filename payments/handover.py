"""Pay by hand: cash, gift card, bank transfer. Two steps, the same states, the same uniqueness.

A person first says "I am handing it over" and then "it is done", with a reference. In between the
money may or may not have left, exactly as with a call to a provider.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from payments import outbound
from payments.capabilities import capabilities_of
from payments.models import PaymentAttempt, PaymentTask
from payments.outcomes import Deferred, Outcome, Purpose, Settled
from payments.settlement import lock_task, only_its_own, take_effect
from returns import timeline
from returns.errors import Invalid, WrongState
from returns.models import OrderBalance, RefundOperation
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.states import TaskState
from returns.timeline import refusals_are_recorded


@refusals_are_recorded("hand_over_start")
@database_work_is_retried
def start(*, task_id: int, by: User) -> PaymentTask:
    """Announce that the money is being handed over now, so that nobody else does the same.

    The same person again changes nothing. Raises NotAllowed (role), WrongState.
    """
    require(by, "hand_over")
    with transaction.atomic():
        _, operation, task = _lock_manual(task_id)
        if task.state == TaskState.SENDING and task.handed_over_by == by:
            return task
        _refuse_unless(task, TaskState.PENDING)
        outbound.begin_by_hand(task, PaymentAttempt, by.get_username())
        task.handed_over_by = by
        task.save(update_fields=["handed_over_by"])
        timeline.write(operation, "hand_over_started", by=by, payment=task.pk)
    return task


@refusals_are_recorded("hand_over_confirm")
def confirm(*, task_id: int, by: User, reference: str) -> PaymentTask:
    """Say that the money has been handed over, with the receipt's or transfer's reference.

    The same reference again changes nothing. Raises NotAllowed (role), WrongState, Invalid for a
    missing reference or one that another payment already has.
    """
    reference = reference.strip()
    if not 1 <= len(reference) <= 200:
        raise Invalid({"reference": "Give the number of the receipt or transfer."})

    def already_done(task: PaymentTask) -> bool:
        return task.state == TaskState.SUCCEEDED and task.provider_refund == reference

    def settled(task: PaymentTask) -> Outcome:
        outcome = only_its_own(task, Settled(reference, task.amount_minor, task.currency))
        if not isinstance(outcome, Settled):
            raise Invalid({"reference": "Another payment already has this reference."})
        return outcome

    return _end(task_id, by, already_done, settled)


@refusals_are_recorded("hand_over_abandon")
def abandon(*, task_id: int, by: User, reason: str) -> PaymentTask:
    """Say that no money was handed over after all; the payment waits again.

    Only whoever began it can know, or somebody who decides on unpaid payments. Raises NotAllowed
    (role), WrongState, Invalid without a reason.
    """
    if not reason.strip():
        raise Invalid({"reason": "Say why the money was not handed over."})

    def given_up(task: PaymentTask) -> Outcome:
        if task.handed_over_by != by:
            require(by, "declare_unpaid")
        return Deferred(reason)

    return _end(
        task_id, by, lambda task: task.state == TaskState.PENDING and task.lease > 0, given_up
    )


@database_work_is_retried
def _end(
    task_id: int,
    by: User,
    already_done: Callable[[PaymentTask], bool],
    outcome_of: Callable[[PaymentTask], Outcome],
) -> PaymentTask:
    require(by, "hand_over")
    with transaction.atomic():
        balance, operation, task = _lock_manual(task_id)
        if already_done(task):
            return task
        _refuse_unless(task, TaskState.SENDING)
        _write(balance, operation, task, by, outcome_of(task))
    return task


def _write(
    balance: OrderBalance, operation: RefundOperation, task: PaymentTask, by: User, outcome: Outcome
) -> None:
    before = task.state
    claim = outbound.Claim(task.pk, task.lease, Purpose.SEND, timezone.now(), 0.0)
    judgement = outbound.record(
        task, PaymentAttempt, claim, outcome, capabilities_of(task.provider)
    )
    take_effect(balance, operation, task, before, judgement.verdict, outcome, by)
    if isinstance(outcome, Deferred):
        timeline.write(
            operation, "hand_over_abandoned", by=by, note=outcome.reason, payment=task.pk
        )


def _lock_manual(task_id: int) -> tuple[OrderBalance, RefundOperation, PaymentTask]:
    balance, operation, task = lock_task(task_id)
    if not capabilities_of(task.provider).by_person:
        raise WrongState("The provider pays this, not a person.", state=task.state)
    return balance, operation, task


def _refuse_unless(task: PaymentTask, state: str) -> None:
    if task.state != state:
        who = f" by {task.handed_over_by}" if task.handed_over_by else ""
        raise WrongState(
            f"This payment is {task.get_state_display()}{who}; look at it again.", state=task.state
        )
