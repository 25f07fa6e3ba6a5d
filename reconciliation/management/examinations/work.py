"""The work: queues, what is due and since when, who is alive, and what waits for a person."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from payments import heartbeat
from payments.models import PaymentTask, ProviderHalt
from payments.recovery import due_payments
from reconciliation.dispatch import due_postings
from reconciliation.management.examinations.finding import Finding
from reconciliation.models import ErpPosting
from reconciliation.sweeping import LOOPS
from returns.states import TaskState

# The sweep shows a sign of life every second; one pass over slow answers takes longer.
_MOST_SILENCE_SECONDS = 60
# What is due is looked at within seconds.
_MOST_WAIT_SECONDS = 5 * 60
# A nudge is taken at once; so many that nobody has taken mean that no worker runs.
_MOST_MESSAGES = 100


def examine() -> Iterator[Finding]:
    """Findings from tables; the database must be there and migrated."""
    for queue in (settings.MONEY_QUEUE, settings.BOOKS_QUEUE):
        yield _queue(queue)
    yield _sweep()
    yield _due("payments due", PaymentTask.objects.filter(pk__in=due_payments()))
    yield _due("ERP postings due", ErpPosting.objects.filter(pk__in=due_postings()))
    yield from _halts()
    yield _set_aside()


def _queue(name: str) -> Finding:
    depth = OrmQ.objects.filter(key=name).count()
    return Finding(
        f"queue {name}",
        depth < _MOST_MESSAGES,
        f"{depth} messages",
        f"Start Q_CLUSTER_NAME={name} manage.py qcluster; until then the sweep does its work.",
    )


def _sweep() -> Finding:
    silence = heartbeat.longest_silence_seconds(LOOPS)
    alive = silence is not None and silence < _MOST_SILENCE_SECONDS
    return Finding(
        "sweep",
        alive,
        "never seen" if silence is None else f"last seen {silence:.0f} s ago",
        "Start manage.py sweep --every 1; without it nothing unknown is ever looked at.",
    )


def _due(about: str, rows: QuerySet[PaymentTask] | QuerySet[ErpPosting]) -> Finding:
    now = timezone.now()
    looks = [look for look in rows.values_list("next_look_at", flat=True) if look]
    longest = max(((now - look).total_seconds() for look in looks), default=0.0)
    return Finding(
        about,
        longest < _MOST_WAIT_SECONDS,
        f"{len(looks)}, the oldest for {longest:.0f} s" if looks else "none",
        "See that sweep and workers run and what their logs say; or run manage.py sweep once.",
    )


def _halts() -> Iterator[Finding]:
    for halt in ProviderHalt.objects.filter(until__gt=timezone.now()):
        found = f"rests until {halt.until:%H:%M:%S} UTC: {halt.reason}"
        yield Finding(
            f"provider {halt.provider}", False, found, "Correct its API key, then wait until then."
        )


def _set_aside() -> Finding:
    """No fault of the machinery: it has done what it can."""
    payments = PaymentTask.objects.filter(state=TaskState.STUCK).count()
    postings = ErpPosting.objects.filter(state=TaskState.STUCK).count()
    found = f"{payments} payments, {postings} ERP postings"
    return Finding("set aside for a person", True, found, "")
