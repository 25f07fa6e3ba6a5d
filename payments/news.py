"""What an event from a provider does to a payment. Older news never moves it backwards."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from payments import outbound
from payments.capabilities import capabilities_of
from payments.external import record_chargeback, record_external
from payments.models import PaymentTask, ProviderEvent
from payments.outcomes import Accepted, Purpose, Refused, Settled
from payments.providers.base import ProviderNews
from payments.settlement import lock_task, only_its_own, take_effect
from returns.states import TASK_FINAL, TaskState

Standing = ProviderEvent.Standing


def apply_news(provider: str, news: ProviderNews) -> tuple[Standing, str]:
    """Apply one verified event inside the caller's transaction; returns what became of it.

    A refund that was not made here moves no payment of ours; it eats the balance. An event that
    carries our key but has no payment yet is parked: it may have overtaken our own commit.
    """
    if news.unread:
        return Standing.NOT_UNDERSTOOD, news.unread
    if news.taken_back is not None:
        return record_chargeback(provider, news.payments, news.taken_back)
    if news.says is None:
        return Standing.IGNORED, "not about a refund"
    task_id = _task_id(provider, news)
    if task_id is None:
        if news.wire_key is None:
            return record_external(provider, news)
        return Standing.PARKED, "waiting for its payment"
    return _apply_to(task_id, news, news.says)


def _apply_to(
    task_id: int, news: ProviderNews, says: Settled | Accepted | Refused
) -> tuple[Standing, str]:
    balance, operation, task = lock_task(task_id)
    if task.provider_refund not in (None, news.provider_refund):
        return _about_another_refund(task, news)
    # A clock that runs ahead must not make us deaf to what comes later.
    occurred_at = min(news.occurred_at, timezone.now())
    if task.news_at is not None and occurred_at < task.news_at:
        return Standing.IGNORED, "older than what is known"
    same_second = task.news_at == occurred_at
    PaymentTask.objects.filter(pk=task.pk).update(news_at=occurred_at)
    contradicts = not isinstance(says, Settled | Accepted)
    if task.state == TaskState.SUCCEEDED and contradicts and not same_second:
        verdict = outbound.take_news(task, Purpose.ASK, says, capabilities_of(task.provider))
        take_effect(balance, operation, task, TaskState.SUCCEEDED, verdict, says)
        return Standing.APPLIED, "the payment came back"
    if task.state == TaskState.SUCCEEDED and contradicts:
        return _ask(task, "succeeded and failed in the same second: the look-up decides")
    if task.state in TASK_FINAL:
        return _about_a_final_payment(task, news, occurred_at)
    if contradicts or same_second:
        return _ask(task, "the look-up decides")
    before = task.state
    outcome = only_its_own(task, says)
    verdict = outbound.take_news(task, Purpose.ASK, outcome, capabilities_of(task.provider))
    take_effect(balance, operation, task, before, verdict, outcome)
    return Standing.APPLIED, verdict.value


def _task_id(provider: str, news: ProviderNews) -> int | None:
    mine = Q(wire_key=news.wire_key) if news.wire_key else Q(provider_refund=news.provider_refund)
    tasks = PaymentTask.objects.filter(mine, provider=provider)
    return tasks.values_list("pk", flat=True).first()


def _ask(task: PaymentTask, why: str) -> tuple[Standing, str]:
    outbound.look_now(task, timezone.now())
    return Standing.APPLIED, why


def _about_another_refund(task: PaymentTask, news: ProviderNews) -> tuple[Standing, str]:
    """A second refund under our key says nothing about ours; one that moves money is an alarm."""
    if not isinstance(news.says, Settled | Accepted):
        return Standing.IGNORED, "another refund under our key, which moved nothing"
    outbound.raise_attention(task, "more_than_one_payment")
    return Standing.APPLIED, f"a second refund {news.provider_refund} under our key"


def _about_a_final_payment(
    task: PaymentTask, news: ProviderNews, occurred_at: datetime
) -> tuple[Standing, str]:
    """What is said of a payment that has ended; "paid" after a no is an alarm.

    Not so where a look-up has brought the end of this very refund, and the event, older than that,
    comes behind it.
    """
    paid_after_all = isinstance(news.says, Settled | Accepted) and task.state != TaskState.SUCCEEDED
    if not paid_after_all:
        return Standing.APPLIED, "nothing new"
    ended_at = task.finished_at if task.provider_refund else None
    if ended_at is not None and occurred_at <= ended_at:
        return Standing.IGNORED, "older than the end that is known"
    outbound.raise_attention(task, "paid_after_refusal")
    return Standing.APPLIED, "says paid, but the payment had been given up"
