"""How long something has waited, in words, and from when on that is late. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils.translation import gettext

from returns.states import OperationState

# How long an operation may rest in a state before a person should ask why. Goods and decisions
# are a matter of the working day; money and books move by themselves within minutes.
TARGETS: dict[str, timedelta] = {
    OperationState.RECEIVED: timedelta(days=1),
    OperationState.INSPECTED: timedelta(days=1),
    OperationState.APPROVED: timedelta(days=1),
    OperationState.RESERVED: timedelta(hours=1),
    OperationState.PAID: timedelta(hours=1),
}

_MINUTE, _HOUR, _DAY = 60, 60 * 60, 24 * 60 * 60


def is_late(state: str, since: datetime, now: datetime) -> bool:
    """Whether a state has lasted longer than its target. Final states have none."""
    target = TARGETS.get(state)
    return target is not None and now - since > target


def in_words(since: datetime, now: datetime) -> str:
    """A duration with one or two units: "12 min", "2 h 5 min", "1 d 3 h"."""
    seconds = max(0, int((now - since).total_seconds()))
    if seconds < _MINUTE:
        return gettext("%(n)d s") % {"n": seconds}
    if seconds < _HOUR:
        return gettext("%(n)d min") % {"n": seconds // _MINUTE}
    if seconds < _DAY:
        hours, rest = divmod(seconds, _HOUR)
        return _two(gettext("%(n)d h") % {"n": hours}, gettext("%(n)d min"), rest // _MINUTE)
    days, rest = divmod(seconds, _DAY)
    return _two(gettext("%(n)d d") % {"n": days}, gettext("%(n)d h"), rest // _HOUR)


def _two(larger: str, smaller: str, count: int) -> str:
    return f"{larger} {smaller % {'n': count}}" if count else larger
