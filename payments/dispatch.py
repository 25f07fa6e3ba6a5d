"""A worker's step with one payment: claim it, call, record. No transaction is open at the call."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from payments import outbound, settlement
from payments.capabilities import capabilities_of
from payments.models import PaymentAttempt, PaymentTask, ProviderHalt
from payments.outcomes import Deferred, Outcome, Purpose
from payments.providers import provider
from payments.providers.base import PaymentOrder

log = logging.getLogger(__name__)


def pay_operation(operation_id: int) -> int:
    """Take every payment of an operation as far as it goes now; returns the calls made."""
    tasks = PaymentTask.objects.filter(operation_id=operation_id).order_by("pk")
    return sum(pay(task_id) for task_id in tasks.values_list("pk", flat=True))


def pay(task_id: int) -> int:
    """Take one payment as far as it goes now; returns the number of calls made."""
    return outbound.until_nothing_is_due(lambda: _step(task_id))


def _step(task_id: int) -> bool:
    task = PaymentTask.objects.select_related("tender", "operation__order").get(pk=task_id)
    if ProviderHalt.objects.filter(provider=task.provider, until__gt=timezone.now()).exists():
        return False
    claim = outbound.claim(PaymentTask, PaymentAttempt, task_id, capabilities_of(task.provider))
    if not isinstance(claim, outbound.Claim):
        return False
    outcome = _call(claim, task)
    if outcome is None:
        log.warning("payment %s: woke after the lease, nothing was sent", task_id)
        return False
    if isinstance(outcome, Deferred) and outcome.stops_account:
        _halt(task.provider, outcome.reason)
    return settlement.record(task_id=task_id, claim=claim, outcome=outcome)


def _call(claim: outbound.Claim, task: PaymentTask) -> Outcome | None:
    """The outbound call itself, or None when the lease no longer covers it."""
    if transaction.get_connection().in_atomic_block:
        raise RuntimeError("no outbound call may happen inside a transaction")
    adapter, order = provider(task.provider), order_of(task)
    if not outbound.may_call(claim):
        return None
    return adapter.pay(order) if claim.purpose is Purpose.SEND else adapter.find(order)


def order_of(task: PaymentTask) -> PaymentOrder:
    """What an adapter needs to know to make this payment or to find it."""
    return PaymentOrder(
        wire_key=task.wire_key,
        operation_key=task.operation.operation_key,
        reference=task.operation.reference,
        order=task.operation.order.number,
        payment=task.tender.payment,
        amount_minor=task.amount_minor,
        currency=task.currency,
        provider_refund=task.provider_refund,
    )


def _halt(name: str, reason: str) -> None:
    until = timezone.now() + timedelta(seconds=settings.PROVIDER_HALT_SECONDS)
    ProviderHalt.objects.update_or_create(
        provider=name, defaults={"reason": reason, "until": until}
    )
