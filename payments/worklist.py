"""What of the money needs eyes: for the payments page and the approvals inbox."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from payments.models import Approval, PaymentTask
from returns.states import OperationState, TaskState

# One page of the most urgent; the figures say how many there are altogether.
MOST_ROWS = 100

UNSURE = (TaskState.UNKNOWN, TaskState.STUCK)
MOVING = (TaskState.SENDING, TaskState.ACCEPTED)
WAITING = (TaskState.PENDING,)
FAILED = (TaskState.DECLINED, TaskState.RETURNED)
GROUPS: dict[str, tuple[TaskState, ...]] = {
    "unsure": UNSURE,
    "moving": MOVING,
    "failed": FAILED,
    "waiting": WAITING,
}


def open_payments() -> dict[str, list[PaymentTask]]:
    """The payments that are not done, by group, oldest first in each.

    A payment that did not work counts as long as its operation still owes the money.
    """
    rows = _open().select_related("operation__order", "tender", "handed_over_by")
    return {
        group: list(rows.filter(state__in=states).order_by("pk")[:MOST_ROWS])
        for group, states in GROUPS.items()
    }


def figures(since: datetime) -> dict[str, int]:
    """How many payments are in each group, and how many were paid since then."""
    counts = {group: Count("pk", filter=Q(state__in=states)) for group, states in GROUPS.items()}
    unknown = Count("pk", filter=Q(state=TaskState.UNKNOWN))
    stuck = Count("pk", filter=Q(state=TaskState.STUCK))
    paid = PaymentTask.objects.filter(state=TaskState.SUCCEEDED, finished_at__gte=since)
    open_now = _open().aggregate(**counts, unknown=unknown, stuck=stuck)
    return {**open_now, "paid": paid.count()}


def agreed_by(user: User) -> Q:
    """Operations that this manager has approved and that still need another one's approval."""
    given = Approval.objects.filter(
        operation=OuterRef("pk"), approved_by=user, generation=OuterRef("pay_rounds") + 1
    )
    return Q(Exists(given), state=OperationState.APPROVED)


def start_of_today() -> datetime:
    """Midnight in the store's time zone."""
    now = timezone.now().astimezone(ZoneInfo(settings.STORE_TIME_ZONE))
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _open() -> QuerySet[PaymentTask]:
    owed = Q(state__in=FAILED, operation__state=OperationState.APPROVED)
    unfinished = Q(state__in=[*UNSURE, *MOVING, *WAITING])
    return PaymentTask.objects.filter(unfinished | owed)
