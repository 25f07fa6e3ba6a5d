"""Workers and threads of a test: everything due is taken to its end, and time passes on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeVar

from django.db import connection, transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Min, Model, Value
from django.db.models.fields import DurationField
from django.utils import timezone

from payments.capabilities import BY_PROVIDER
from payments.models import PaymentTask, ProviderEvent, ProviderHalt
from reconciliation.models import ErpPosting
from reconciliation.sweeping import sweep
from returns.states import TASK_FINAL, TaskState
from tests.sandboxes import MoneyOuts

Result = TypeVar("Result")

_OUTBOUND_TIMES = (
    *("lease_until", "next_look_at", "first_sent_at", "last_sent_at"),
    *("last_send_ends_at", "safe_retry_until", "absent_at"),
)
_TIMES: dict[type[Model], tuple[str, ...]] = {
    PaymentTask: (*_OUTBOUND_TIMES, "finished_at", "news_at"),
    ErpPosting: (*_OUTBOUND_TIMES, "tidy_at"),
    ProviderEvent: ("received_at", "next_look_at"),
    ProviderHalt: ("until",),
}
# A race that is not over by then hangs.
_RACE_SECONDS = 30


def let_pass(seconds: float) -> None:
    """Time passes for everything on its way: its moments move back by this much."""
    span = Value(timedelta(seconds=seconds), output_field=DurationField())
    with transaction.atomic():
        for model, names in _TIMES.items():
            moved = {
                name: ExpressionWrapper(F(name) - span, output_field=DateTimeField())
                for name in names
            }
            model._default_manager.update(**moved)


def run_until_done(
    provider: MoneyOuts, within_seconds: float = 3600, wait: Callable[[float], None] = let_pass
) -> None:
    """Sweep until nothing is on its way any more, or until this much time has passed."""
    provider.know_payments()
    passed = 0.0
    while True:
        sweep(threads=1)
        next_look_at = _next_look()
        if next_look_at is None or passed >= within_seconds:
            return
        wait_seconds = max((next_look_at - timezone.now()).total_seconds(), 0) + 0.01
        wait(wait_seconds)
        passed += wait_seconds


def _next_look() -> datetime | None:
    """When a worker has something to do next; None when nothing is on its way."""
    by_person = [name for name, promise in BY_PROVIDER.items() if promise.by_person]
    resting = ProviderHalt.objects.filter(until__gt=timezone.now())
    payments = PaymentTask.objects.exclude(state__in=[*TASK_FINAL, TaskState.STUCK]).exclude(
        provider__in=by_person
    )
    halted = resting.filter(provider__in=payments.values("provider"))
    looks = [
        payments.exclude(provider__in=resting.values("provider")),
        ErpPosting.objects.exclude(state__in=[*TASK_FINAL, TaskState.STUCK]),
        ProviderEvent.objects.filter(standing=ProviderEvent.Standing.PARKED),
    ]
    moments = [rows.aggregate(at=Min("next_look_at"))["at"] for rows in looks]
    moments.append(halted.aggregate(at=Min("until"))["at"])
    return min((moment for moment in moments if moment is not None), default=None)


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result | Exception]:
    """Run the calls in threads that start together; each one's result or what it raised."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result | Exception:
        try:
            connection.ensure_connection()
            start.wait(_RACE_SECONDS)
            return call()
        except Exception as error:  # noqa: BLE001 - the test says which errors are right
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        return [future.result(_RACE_SECONDS) for future in [pool.submit(run, c) for c in calls]]
