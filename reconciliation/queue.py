"""The order in which mismatches are worked on: the oldest day first, on a day the largest amount.

Amounts of different currencies are not converted; within a day they follow their figures.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.db.models.functions import TruncDate

from reconciliation.models import Mismatch

# An item that waits longer than this is late.
TARGET = timedelta(days=2)

OLDEST_AND_LARGEST_FIRST = ("opened_on", "-at_stake_minor", "pk")


def items() -> QuerySet[Mismatch, Any]:
    """Every mismatch with what a list of them shows, and `opened_on`: the store's day it opened."""
    zone = ZoneInfo(settings.STORE_TIME_ZONE)
    return Mismatch.objects.annotate(opened_on=TruncDate("opened_at", tzinfo=zone)).select_related(
        "operation__order", "line", "entry", "assignee", "proposed_by", "resolved_by"
    )


def next_after(mismatch: Mismatch, rows: QuerySet[Mismatch, Any], by: User) -> Mismatch | None:
    """What somebody looks at after this one: the next that waits for them, or the first again.

    What they have proposed themselves waits for somebody else.
    """
    opened_on = mismatch.opened_at.astimezone(ZoneInfo(settings.STORE_TIME_ZONE)).date()
    waiting = rows.filter(status=Mismatch.Status.OPEN).exclude(proposed_by=by)
    waiting = waiting.exclude(pk=mismatch.pk).order_by(*OLDEST_AND_LARGEST_FIRST)
    same_day = Q(opened_on=opened_on)
    later = waiting.filter(
        Q(opened_on__gt=opened_on)
        | (same_day & Q(at_stake_minor__lt=mismatch.at_stake_minor))
        | (same_day & Q(at_stake_minor=mismatch.at_stake_minor, pk__gt=mismatch.pk))
    )
    return later.first() or waiting.first()


def is_late(mismatch: Mismatch, now: datetime) -> bool:
    """Whether an open item has waited longer than it should."""
    return mismatch.is_open and now - mismatch.opened_at > TARGET
