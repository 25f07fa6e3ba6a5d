"""Which reconciliation is due now: one that somebody asked for, or the nightly one."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

from reconciliation import runs
from reconciliation.collecting import collect
from reconciliation.models import ReconciliationRun
from returns.errors import WrongState

# A nightly run that has failed, with a counterpart out of reach perhaps, is tried again after this.
AGAIN_AFTER = timedelta(hours=1)


def run_what_is_due() -> dict[str, int]:
    """Carry out the run that waits, or the nightly one when its time has come."""
    taken_up = runs.take_up(collect)
    if taken_up is None and _night_is_due(timezone.now()):
        taken_up = _run_nightly()
    return {"reconciled": int(taken_up is not None)}


def _run_nightly() -> ReconciliationRun | None:
    last = timezone.now().astimezone(ZoneInfo(settings.STORE_TIME_ZONE)).date()
    first = last - timedelta(days=settings.RECONCILE_DAYS)
    try:
        return runs.reconcile(first=first, last=last, by=None, collect=collect)
    except WrongState:
        # Somebody else's is under way; ours comes after it.
        return None


def _night_is_due(now: datetime) -> bool:
    if not settings.RECONCILE_AT:
        return False
    local = now.astimezone(ZoneInfo(settings.STORE_TIME_ZONE))
    tonight = datetime.combine(local, time.fromisoformat(settings.RECONCILE_AT), local.tzinfo)
    if tonight > local:
        tonight -= timedelta(days=1)
    tries = ReconciliationRun.objects.filter(started_by=None, started_at__gte=tonight)
    latest = tries.order_by("-started_at").first()
    if latest is None:
        return True
    failed = latest.state == ReconciliationRun.State.FAILED
    return failed and latest.started_at < now - AGAIN_AFTER
