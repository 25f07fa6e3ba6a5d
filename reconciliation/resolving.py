"""What a person does about a mismatch: take it, have others asked again, close it with a reason.

None of this moves money. Asking again and posting again only release work that has its own rules;
such an item closes by itself once all is right. Where more is at stake than one person may decide
on alone, one proposes and another confirms.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from payments import settlement
from reconciliation import posting
from reconciliation.models import Mismatch, MismatchEvent
from reconciliation.releasable import posting_of, why_not_asked, why_not_closed, why_not_posted
from returns import locking, money
from returns.errors import Invalid, Missing, NotAllowed, Stale, WrongState
from returns.models import RefundOperation
from returns.permissions import may, require
from returns.retrying import database_work_is_retried
from returns.states import TaskState
from returns.timeline import refusals_are_recorded

# One word explains nothing to whoever reads it a year later.
FEWEST_WORDS = 2
MOST_CHARACTERS = 2_000

Verb = MismatchEvent.Verb
Resolution = Mismatch.Resolution

# The software's own resolution is not a person's to give.
RESOLUTIONS = [choice for choice in Resolution.choices if choice[0] != Resolution.RIGHTED]


def look_at(*, mismatch_id: int, by: User) -> None:
    """Remember when a person who may close an item has first looked at it; later looks are none."""
    if not may(by, "resolve_mismatch"):
        return
    seen = MismatchEvent(mismatch_id=mismatch_id, verb=Verb.LOOK_AT, by=by, at=timezone.now())
    MismatchEvent.objects.bulk_create([seen], ignore_conflicts=True)


@refusals_are_recorded("assign_mismatch")
@database_work_is_retried
def assign(*, mismatch_id: int, by: User, to: User | None, held_by: User | None) -> Mismatch:
    """Give an item to somebody, or back to nobody; `held_by` is who has it as the person sees it.

    Raises NotAllowed (role), Missing, Invalid when `to` may not close it, WrongState once it is
    closed, and Stale when somebody else has taken it meanwhile.
    """
    require(by, "resolve_mismatch")
    if to is not None and not may(to, "resolve_mismatch"):
        raise Invalid({"assignee": f"{to} cannot close mismatches."})
    with transaction.atomic():
        mismatch = _lock_open(mismatch_id)
        if mismatch.assignee == to:
            return mismatch
        if mismatch.assignee != held_by:
            raise Stale(f"{mismatch.assignee or 'Nobody'} has this item by now.")
        mismatch.assignee = to
        mismatch.save(update_fields=["assignee"])
        _tell(mismatch, Verb.ASSIGN, by, f"to {to}" if to else "to nobody")
    return mismatch


@refusals_are_recorded("note_mismatch")
@database_work_is_retried
def note(*, mismatch_id: int, by: User, text: str) -> None:
    """Write something down for whoever goes on. Raises NotAllowed (role), Missing, Invalid."""
    require(by, "resolve_mismatch")
    if not text.strip() or len(text) > MOST_CHARACTERS:
        raise Invalid({"text": f"Write something, at most {MOST_CHARACTERS} characters."})
    with transaction.atomic():
        _tell(_lock(mismatch_id), Verb.NOTE, by, text)


@refusals_are_recorded("ask_again")
@database_work_is_retried
def ask_again(*, mismatch_id: int, by: User) -> None:
    """Have the provider asked what became of the payment; nothing is sent a second time.

    Raises NotAllowed (role), Missing, and WrongState where there is nothing to ask about.
    """
    require(by, "resolve_mismatch")
    mismatch = _open_one(mismatch_id)
    task = mismatch.payment
    if task is None or not settlement.may_be_asked_about(task):
        raise WrongState(why_not_asked(mismatch))
    with transaction.atomic():
        settlement.ask_again(task_id=task.pk, by=by)
        _tell(mismatch, Verb.ASK_AGAIN, by)


@refusals_are_recorded("post_again")
@database_work_is_retried
def post_again(*, mismatch_id: int, by: User) -> None:
    """Have the ERP asked again about a credit that is set aside, once the cause is mended.

    Raises NotAllowed (role), Missing, and WrongState where no credit is set aside.
    """
    require(by, "resolve_mismatch")
    mismatch = _open_one(mismatch_id)
    credit = posting_of(mismatch)
    if credit is None or credit.state != TaskState.STUCK:
        raise WrongState(why_not_posted(mismatch))
    with transaction.atomic():
        posting.try_again(posting_id=credit.pk, by=by)
        _tell(mismatch, Verb.POST_AGAIN, by)


@refusals_are_recorded("resolve_mismatch")
@database_work_is_retried
def resolve(
    *,
    mismatch_id: int,
    by: User,
    resolution: str,
    reason: str,
    evidence: str = "",
    operation_key: UUID | None = None,
) -> Mismatch:
    """A person closes a mismatch with a reason; above their limit they propose to close it.

    The same again changes nothing. Raises NotAllowed (role), Missing, Invalid, WrongState when it
    was closed in another way, while somebody else's proposal waits, or while what it is about is
    still set aside: closing the item must not be the last anybody sees of it.
    """
    require(by, "resolve_mismatch")
    _refuse_incomplete(resolution, reason, evidence, operation_key)
    with transaction.atomic():
        mismatch = _lock(mismatch_id)
        if _is_said_already(mismatch, by, (resolution, reason, evidence, operation_key)):
            return mismatch
        _refuse_closed(mismatch)
        _refuse_while_set_aside(mismatch)
        if mismatch.proposed_by_id not in (None, by.pk):
            raise WrongState(
                f"{mismatch.proposed_by} has proposed how to close this. "
                "Confirm it, or turn it down first."
            )
        mismatch.resolution, mismatch.reason = resolution, reason
        mismatch.evidence = evidence
        mismatch.link_to = None if operation_key is None else _operation(operation_key)
        mismatch.alone_up_to_minor = alone_up_to_minor(mismatch.currency)
        if takes_two(mismatch):
            _propose(mismatch, by)
        else:
            _close(mismatch, by)
    return mismatch


@refusals_are_recorded("confirm_mismatch")
@database_work_is_retried
def confirm(*, mismatch_id: int, by: User, proposed_at: datetime) -> Mismatch:
    """A second person agrees with the proposal of that moment, and the item is closed.

    Raises NotAllowed (role; own_proposal for the one who proposed it), Missing, WrongState where
    nothing is proposed, and Stale when another proposal stands there by now.
    """
    require(by, "resolve_mismatch")
    with transaction.atomic():
        mismatch = _lock(mismatch_id)
        if (mismatch.resolved_by_id, mismatch.proposed_at) == (by.pk, proposed_at):
            return mismatch
        _refuse_unproposed(mismatch, by)
        if mismatch.proposed_at != proposed_at:
            raise Stale("The proposal has changed since you opened this page. Read it again.")
        _refuse_while_set_aside(mismatch)
        _close(mismatch, by)
    return mismatch


@refusals_are_recorded("turn_down_mismatch")
@database_work_is_retried
def turn_down(*, mismatch_id: int, by: User, reason: str) -> Mismatch:
    """A second person does not agree, and says why; the item waits for another resolution.

    Raises NotAllowed (role; own_proposal), Missing, Invalid, WrongState where nothing is proposed.
    """
    require(by, "resolve_mismatch")
    if complaint := complaint_about(reason):
        raise Invalid({"reason": complaint})
    with transaction.atomic():
        mismatch = _lock(mismatch_id)
        _refuse_unproposed(mismatch, by)
        mismatch.resolution = mismatch.reason = mismatch.evidence = ""
        mismatch.link_to = mismatch.proposed_by = mismatch.proposed_at = None
        mismatch.save()
        _tell(mismatch, Verb.TURN_DOWN, by, reason)
    return mismatch


def alone_up_to_minor(currency: str) -> int:
    """How much one person may decide on alone, minor units."""
    if not currency:
        return 0
    limits = settings.RESOLUTION_LIMITS
    return money.parse(limits.get(currency, limits["other"]), currency)


def takes_two(mismatch: Mismatch) -> bool:
    """Whether more is at stake than one person may decide on."""
    return mismatch.at_stake_minor > alone_up_to_minor(mismatch.currency)


def complaint_about(reason: str) -> str:
    """What is wrong with a reason, as a sentence; empty when it says enough."""
    if len(reason) > MOST_CHARACTERS:
        return f"At most {MOST_CHARACTERS} characters."
    if len(reason.split()) < FEWEST_WORDS:
        return "Say why, in some words."
    return ""


def _propose(mismatch: Mismatch, by: User) -> None:
    mismatch.proposed_by, mismatch.proposed_at = by, timezone.now()
    mismatch.save()
    _tell(mismatch, Verb.PROPOSE, by, _in_words(mismatch))


def _close(mismatch: Mismatch, by: User) -> None:
    mismatch.status = Mismatch.Status.RESOLVED
    mismatch.resolved_by, mismatch.resolved_at = by, timezone.now()
    if mismatch.link_to is not None:
        mismatch.operation = mismatch.link_to
    mismatch.save()
    _tell(mismatch, Verb.RESOLVE, by, _in_words(mismatch))


def _in_words(mismatch: Mismatch) -> str:
    parts = [mismatch.get_resolution_display(), mismatch.reason, mismatch.evidence]
    return " · ".join(filter(None, parts))


def _tell(mismatch: Mismatch, verb: Verb, by: User, text: str = "") -> None:
    MismatchEvent.objects.create(mismatch=mismatch, verb=verb, by=by, note=text, at=timezone.now())


def _lock(mismatch_id: int) -> Mismatch:
    # Alone: rows joined to one that was waited for are those from before the wait.
    found = locking.lock_rows(Mismatch.objects.filter(pk=mismatch_id))
    if not found:
        raise _unknown()
    return found[0]


def _lock_open(mismatch_id: int) -> Mismatch:
    mismatch = _lock(mismatch_id)
    _refuse_closed(mismatch)
    return mismatch


def _open_one(mismatch_id: int) -> Mismatch:
    """An open item, not locked: what follows locks the rows of the money, and those come first."""
    rows = Mismatch.objects.select_related("payment", "posting", "operation__posting")
    mismatch = rows.filter(pk=mismatch_id).first()
    if mismatch is None:
        raise _unknown()
    _refuse_closed(mismatch)
    return mismatch


def _unknown() -> Missing:
    return Missing("There is no such mismatch.", code="unknown_mismatch")


def _is_said_already(mismatch: Mismatch, by: User, decision: tuple[object, ...]) -> bool:
    link = mismatch.link_to and mismatch.link_to.operation_key
    said = (mismatch.resolution, mismatch.reason, mismatch.evidence, link) == decision
    return said and (not mismatch.is_open or mismatch.proposed_by_id == by.pk)


def _refuse_closed(mismatch: Mismatch) -> None:
    if not mismatch.is_open:
        who = f" by {mismatch.resolved_by}" if mismatch.resolved_by else ""
        raise WrongState(
            f"This mismatch is already closed{who}: {mismatch.get_resolution_display()}.",
            resolution=mismatch.resolution,
        )


def _refuse_unproposed(mismatch: Mismatch, by: User) -> None:
    _refuse_closed(mismatch)
    if mismatch.proposed_by_id is None:
        raise WrongState("Nobody has proposed how to close this.")
    if mismatch.proposed_by_id == by.pk:
        raise NotAllowed("You proposed this, so somebody else must decide.", code="own_proposal")


def _refuse_while_set_aside(mismatch: Mismatch) -> None:
    if reason := why_not_closed(mismatch):
        raise WrongState(reason)


def _refuse_incomplete(
    resolution: str, reason: str, evidence: str, operation_key: UUID | None
) -> None:
    offered = [value for value, _ in RESOLUTIONS]
    complaints = {}
    if resolution not in offered:
        complaints["resolution"] = f"Use one of: {', '.join(offered)}."
    if complaint := complaint_about(reason):
        complaints["reason"] = complaint
    if len(evidence) > MOST_CHARACTERS:
        complaints["evidence"] = f"At most {MOST_CHARACTERS} characters."
    if resolution == Resolution.LINK and operation_key is None:
        complaints["operation"] = "Name the operation to link to."
    if complaints:
        raise Invalid(complaints)


def _operation(key: UUID) -> RefundOperation:
    try:
        return RefundOperation.objects.get(operation_key=key)
    except RefundOperation.DoesNotExist:
        raise Missing("There is no such return.", code="unknown_return") from None
