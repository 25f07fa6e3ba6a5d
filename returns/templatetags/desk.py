"""How the pages show money, time, states and icons."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.conf import settings
from django.template.defaultfilters import date as formatted
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext
from lucide.templatetags.lucide import lucide

from returns import ages, money
from returns.destinations import BY_HAND
from returns.next_steps import most_minor, next_step_of
from returns.states import OperationState, TaskState
from returns.wording import of_attention

register = template.Library()

_O, _T = OperationState, TaskState
# State -> (look, icon): never by colour alone.
_LOOKS: dict[str, tuple[str, str]] = {
    _O.RECEIVED: ("", "package"),
    _O.INSPECTED: ("", "package-check"),
    _O.APPROVED: ("moving", "stamp"),
    _O.RESERVED: ("moving", "loader"),
    _O.PAID: ("good", "check"),
    _O.POSTED: ("good", "check-check"),
    _O.REJECTED: ("bad", "x"),
    _O.CANCELLED: ("bad", "undo-2"),
    _T.PENDING: ("", "clock"),
    _T.SENDING: ("moving", "send"),
    _T.UNKNOWN: ("doubt", "triangle-alert"),
    _T.ACCEPTED: ("moving", "landmark"),
    _T.SUCCEEDED: ("good", "check"),
    _T.DECLINED: ("bad", "x"),
    _T.RETURNED: ("bad", "undo-2"),
    _T.STUCK: ("doubt", "hand"),
}


@register.filter(name="money")
def money_shown(minor: int, currency: str) -> str:
    """Minor units as currency and figure, the way the user's language writes them."""
    return money.shown(minor, currency, get_language() or "en")


@register.filter
def by_hand(row: Any) -> bool:
    """Whether a person hands over what is paid on this tender or in this payment."""
    return bool(row.provider == BY_HAND)


@register.filter
def why(row: Any) -> str:
    """Why a person must look at a payment or posting, as a sentence; empty when nobody must."""
    return of_attention(row.attention)


@register.filter
def is_past(at: datetime | None) -> bool:
    """Whether a moment is there already."""
    return at is not None and at <= timezone.now()


@register.filter
def age(since: datetime) -> str:
    """How long ago, in words."""
    return ages.in_words(since, timezone.now())


@register.simple_tag
def waiting(state: str, since: datetime) -> SafeString:
    """How long a state has lasted, with the word "late" past its target."""
    now = timezone.now()
    words = ages.in_words(since, now)
    if not ages.is_late(state, since, now):
        return format_html("{}", words)
    return format_html('{} <span class="pill pill-doubt">{}</span>', words, gettext("late"))


@register.simple_tag
def when(at: datetime | None, style: str = "j M H:i") -> SafeString:
    """A time in the store's zone; UTC shows on hover and to programs."""
    if at is None:
        return SafeString("—")
    local = at.astimezone(ZoneInfo(settings.STORE_TIME_ZONE))
    utc = at.astimezone(UTC)
    return format_html(
        '<time class="text-nowrap" datetime="{}" title="{}">{}{}</time>',
        utc.isoformat(timespec="seconds"),
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
        formatted(local, style),
        f" {local.tzname()}" if "H" in style else "",
    )


@register.simple_tag
def icon(name: str) -> str:
    """A decorative line icon; the words beside it carry the meaning."""
    return lucide(name, size=None, **{"class": "icon", "aria-hidden": "true"})


@register.simple_tag
def pill(row: Any) -> SafeString:
    """The state of an operation or payment, as a word with an icon."""
    look, name = _LOOKS.get(row.state, ("", "circle"))
    kind = f"pill pill-{look}" if look else "pill"
    return format_html('<span class="{}">{}{}</span>', kind, icon(name), row.get_state_display())


@register.simple_tag
def next_step(operation: Any) -> str:
    """What comes next for an operation, in words."""
    return str(next_step_of(operation).label)


@register.simple_tag
def unit_box(row: Any, unit: Any) -> str:
    """The value of a unit's box in the intake form."""
    return f"{row.units.line.line_id}:{unit.unit}"


@register.filter
def approvable(operation: Any) -> int:
    """How much an approval of everything comes to, minor units."""
    return most_minor(operation)


@register.simple_tag
def clock(at: datetime) -> str:
    """A time of day in the store's zone, to the second; with the date when it was not today."""
    zone = ZoneInfo(settings.STORE_TIME_ZONE)
    local = at.astimezone(zone)
    today = local.date() == timezone.now().astimezone(zone).date()
    return formatted(local, "H:i:s" if today else "j M H:i:s")
