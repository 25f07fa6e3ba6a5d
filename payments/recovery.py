"""Find what is due and look after it: decisions, unknown payments, leases, parked events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.db import connection
from django.utils import timezone

from payments import batches, dispatch, webhooks
from payments.capabilities import BY_PROVIDER
from payments.models import PaymentTask, ProviderHalt

log = logging.getLogger(__name__)

# One pass takes at most this many rows, oldest look first; the next pass takes the rest.
MOST_A_PASS = 500


def due_payments() -> list[int]:
    """Payments whose next look has come, oldest first; none that a person makes by hand."""
    now = timezone.now()
    by_person = [name for name, promise in BY_PROVIDER.items() if promise.by_person]
    resting = ProviderHalt.objects.filter(until__gt=now).values("provider")
    due = (
        PaymentTask.objects.filter(next_look_at__lte=now)
        .exclude(provider__in=by_person)
        .exclude(provider__in=resting)
        .order_by("next_look_at")
    )
    return list(due.values_list("pk", flat=True)[:MOST_A_PASS])


def sweep(threads: int = 4) -> dict[str, int]:
    """One pass over the money: decide what waits in batches, look at due payments and events."""
    approved = sum(in_threads(batches.carry_out, batches.waiting_items(), threads))
    due = due_payments()
    calls = sum(in_threads(dispatch.pay, due, threads))
    return {
        "approved": approved,
        "payments_due": len(due),
        "calls": calls,
        "events_applied": webhooks.apply_parked(),
    }


def in_threads(step: Callable[[int], int], rows: Iterable[int], threads: int) -> list[int]:
    """Run one step per row in a few threads; one row that fails does not stop the others."""
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(partial(_alone, step), rows))


def _alone(step: Callable[[int], int], row_id: int) -> int:
    try:
        return step(row_id)
    except Exception:
        # It stays due: a payment when its lease ends, a decision at once.
        log.exception("row %s failed in a sweep", row_id)
        return 0
    finally:
        connection.close()
