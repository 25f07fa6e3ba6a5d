"""The page of one mismatch: what it shows, its forms, and which verb each of them names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext

from reconciliation import advice, candidates, casefile, queue, resolving
from reconciliation.admin.rows import decided
from reconciliation.forms import ResolutionForm
from reconciliation.models import Mismatch
from reconciliation.releasable import why_not_asked, why_not_closed, why_not_posted
from returns.errors import Invalid, Missing, RefundDeskError
from returns.permissions import MAY, may
from returns.queries import key_of
from returns.wording import only_for

# The select of people is for a team, not for a directory.
MOST_PEOPLE = 200


@dataclass(frozen=True)
class Forms:
    """What a person types about an item; kept when it is refused."""

    resolution: ResolutionForm
    turn_down: str = ""
    note: str = ""


@dataclass(frozen=True)
class _Asked:
    """One form as it was sent."""

    mismatch: Mismatch
    forms: Forms
    sent: QueryDict
    by: User


def forms_for(mismatch: Mismatch, sent: QueryDict) -> Forms:
    """The forms with what was sent, or with what a link proposes."""
    verb = sent.get("verb", "")
    if verb == "resolve":
        return Forms(ResolutionForm(sent))
    proposed = {"operation": sent.get("operation", "")}
    if proposed["operation"]:
        proposed["resolution"] = Mismatch.Resolution.LINK
    if mismatch.is_proposed:
        proposed = {
            "resolution": mismatch.resolution,
            "reason": mismatch.reason,
            "evidence": mismatch.evidence,
            "operation": str(mismatch.link_to or ""),
        }
    text = {name: sent.get(name, "") if verb == name else "" for name in ("turn_down", "note")}
    return Forms(ResolutionForm(initial=proposed), **text)


def carry_out(mismatch: Mismatch, forms: Forms, sent: QueryDict, by: User) -> str:
    """Carry out the verb that a form names; returns what to tell. Raises RefundDeskError."""
    verb = _VERBS.get(sent.get("verb", ""))
    if verb is None:
        raise Missing(gettext("There is no such button."))
    return verb(_Asked(mismatch, forms, sent, by))


def mark(forms: Forms, error: RefundDeskError) -> None:
    """Put what a verb has found wrong beside the fields it is about."""
    form = forms.resolution
    if form.is_bound and isinstance(error, Invalid):
        for name in error.fields.keys() & form.fields.keys() - form.errors.keys():
            form.add_error(name, str(error.fields[name]))


def context_of(mismatch: Mismatch, user: User) -> dict[str, Any]:
    """Everything the page shows. The number of statements does not depend on the rows."""
    return {
        "mismatch": mismatch,
        "difference": casefile.difference_of(mismatch),
        "sides": casefile.sides_of(mismatch),
        "candidates": candidates.of(mismatch),
        "history": casefile.history_of(mismatch),
        "advice": advice.about(mismatch),
        "is_late": queue.is_late(mismatch, timezone.now()),
        "takes_two": resolving.takes_two(mismatch),
        "is_mine": mismatch.proposed_by_id == user.pk,
        "may_resolve": may(user, "resolve_mismatch"),
        "blocked": why_not_closed(mismatch),
        "why_not_asked": why_not_asked(mismatch) or _unless_may(user, "ask_provider"),
        "why_not_posted": why_not_posted(mismatch),
        "people": _people(),
    }


def _unless_may(user: User, action: str) -> str:
    return "" if may(user, action) else only_for(action)


def _people() -> list[User]:
    """Whom an item can be given to."""
    allowed = User.objects.filter(is_active=True, groups__name__in=MAY["resolve_mismatch"])
    return list(allowed.order_by("username").distinct()[:MOST_PEOPLE])


def _resolve(asked: _Asked) -> str:
    form = asked.forms.resolution
    if not form.is_valid():
        raise Invalid({name: " ".join(map(str, errors)) for name, errors in form.errors.items()})
    name = form.cleaned_data["operation"]
    closed = resolving.resolve(
        mismatch_id=asked.mismatch.pk,
        by=asked.by,
        resolution=form.cleaned_data["resolution"],
        reason=form.cleaned_data["reason"],
        evidence=form.cleaned_data["evidence"],
        operation_key=key_of(name) if name else None,
    )
    return _told(asked, decided(closed))


def _confirm(asked: _Asked) -> str:
    closed = resolving.confirm(
        mismatch_id=asked.mismatch.pk, by=asked.by, proposed_at=_moment(asked.sent)
    )
    return _told(asked, decided(closed))


def _turn_down(asked: _Asked) -> str:
    resolving.turn_down(
        mismatch_id=asked.mismatch.pk, by=asked.by, reason=asked.sent.get("turn_down", "")
    )
    return _told(asked, gettext("Turned down; it is open again."))


def _assign(asked: _Asked) -> str:
    to, held_by = (_named(asked.sent.get(name, "")) for name in ("assignee", "held_by"))
    resolving.assign(mismatch_id=asked.mismatch.pk, by=asked.by, to=to, held_by=held_by)
    return _told(asked, gettext("Assigned to %(who)s.") % {"who": to or gettext("nobody")})


def _note(asked: _Asked) -> str:
    resolving.note(mismatch_id=asked.mismatch.pk, by=asked.by, text=asked.sent.get("note", ""))
    return _told(asked, gettext("Noted."))


def _ask_again(asked: _Asked) -> str:
    resolving.ask_again(mismatch_id=asked.mismatch.pk, by=asked.by)
    return _told(asked, gettext("The provider is being asked what became of the payment."))


def _post_again(asked: _Asked) -> str:
    resolving.post_again(mismatch_id=asked.mismatch.pk, by=asked.by)
    return _told(asked, gettext("The ERP is being asked to take the credit."))


_VERBS: dict[str, Callable[[_Asked], str]] = {
    "resolve": _resolve,
    "confirm": _confirm,
    "turn_down": _turn_down,
    "assign": _assign,
    "note": _note,
    "ask_again": _ask_again,
    "post_again": _post_again,
}
# After these there is nothing left to do here for whoever did it.
LEADS_ON = frozenset({"resolve", "confirm"})


def _told(asked: _Asked, words: str) -> str:
    return f"#{asked.mismatch.pk}: {words}"


def _named(username: str) -> User | None:
    if not username:
        return None
    user = User.objects.filter(username=username).first()
    if user is None:
        raise Invalid({"assignee": gettext("There is nobody of this name.")})
    return user


def _moment(sent: QueryDict) -> datetime:
    try:
        moment = parse_datetime(sent.get("proposed_at", ""))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid({"proposed_at": gettext("Open the page again: the proposal is not named.")})
    return moment
