"""Claim, call, record: the one implementation of the outbound protocol, for money and for books.

    claim    one short transaction: the row is due and its lease is free -> lease it, note the
             attempt, commit
    call     no transaction is open; the worker checks its lease right before it
    record   one short transaction: only if the lease token still stands

This module is the only writer of the protocol's fields. What an outcome does to money or books is
the business of the verbs that call `record`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from payments.models import AttemptRow, OutboundRow
from payments.outcomes import Capabilities, Outcome, Purpose
from payments.protocol import (
    Decision,
    Facts,
    Judgement,
    Step,
    Timing,
    Verdict,
    decide,
    is_quiet,
    judge,
)
from returns.retrying import database_work_is_retried
from returns.states import TASK_EDGES, TaskState, edge

# Between first send and the end of the safe time to re-send: clocks differ, networks are slow.
KEY_MEMORY_MARGIN = timedelta(hours=1)

# How long handing money over may take before somebody is asked about it.
BY_HAND = timedelta(hours=1)

# Send, ask, send again, post: a row that wants more in one go is going round in circles.
MOST_STEPS = 8

# Certainly not applied, and nothing earlier in doubt: no key of ours is remembered anywhere yet.
_KEY_NEVER_TAKEN = {"first_sent_at": None, "safe_retry_until": None}

# Alarms that the end of a row does not answer: they stay until a person has closed them.
NEVER_RIGHTED = frozenset(
    {
        *("more_than_one_payment", "more_than_one_credit", "reference_not_ours"),
        *("refunded_elsewhere", "charged_back"),
    }
)

_TARGET = {
    verdict: edge(TASK_EDGES, verdict.value).target
    for verdict in Verdict
    if verdict is not Verdict.STAY
}


def timing() -> Timing:
    """The configured lease, call and margin, in seconds."""
    return Timing(**settings.OUTBOUND_TIMING)


@dataclass(frozen=True)
class Claim:
    """A worker's right to make one call about one row, until its lease ends."""

    row_id: int
    lease: int
    purpose: Purpose
    asked_at: datetime
    # On a clock that also runs while the machine sleeps: after this no call may start.
    call_before: float


def boot_seconds() -> float:
    """Seconds on a clock that keeps running while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def may_call(claim: Claim) -> bool:
    """Asked right before the call: a worker that slept past its lease must not send."""
    return boot_seconds() < claim.call_before


@database_work_is_retried
def claim(
    rows: type[OutboundRow], attempts: type[AttemptRow], row_id: int, capabilities: Capabilities
) -> Claim | Decision:
    """Lease a row for its next call, or say why not.

    Returns a Claim when exactly this worker got the row. Otherwise the decision that was reached:
    WAIT (nothing due, or somebody holds it) or PARK (already carried out here).
    """
    times, began = timing(), boot_seconds()
    with transaction.atomic():
        row, facts = _read(rows, row_id)
        decision = decide(facts, capabilities, times)
        if decision.step is Step.WAIT:
            return decision
        if decision.step is Step.PARK:
            _claimed(rows, row, **_parked(facts, decision.attention))
            return decision
        purpose = Purpose(decision.step.value)
        lease_until = facts.now + timedelta(seconds=times.lease_seconds)
        fields = _sending(row, facts, lease_until, capabilities) if purpose is Purpose.SEND else {}
        if facts.state == TaskState.SENDING:
            fields = {"state": TaskState.UNKNOWN, "in_doubt": True}
        died = facts.lease_until is not None
        fields |= {
            "lease": row.lease + 1,
            "lease_until": lease_until,
            "deaths": row.deaths + died,
            # If this worker dies, the end of its lease is when somebody must look.
            "next_look_at": lease_until,
        }
        if not _claimed(rows, row, **fields):
            return Decision(Step.WAIT)
        _note(attempts, row.pk, row.lease + 1, purpose, at=facts.now)
    call_before = began + times.lease_seconds - times.call_seconds - times.margin_seconds
    return Claim(row_id, row.lease + 1, purpose, facts.now, call_before)


def begin_by_hand(row: OutboundRow, attempts: type[AttemptRow], who: str) -> None:
    """A person, not a worker, makes this call: the same fields, a lease without a worker's clock.

    The row is locked. Nobody takes it over; when the look comes due, the books tell a person.
    """
    now = timezone.now()
    lease_until = now + BY_HAND
    _write(
        row,
        {
            "state": TaskState.SENDING,
            "lease": row.lease + 1,
            "lease_until": lease_until,
            "next_look_at": lease_until,
            "first_sent_at": row.first_sent_at or now,
            "last_sent_at": now,
            "last_send_ends_at": lease_until,
        },
    )
    _note(attempts, row.pk, row.lease, Purpose.SEND, at=now, who=who)


def holds(row: OutboundRow, claim: Claim) -> bool:
    """Whether the claim's lease token still stands on a row that is locked."""
    return row.lease == claim.lease and row.lease_until is not None


def record(
    row: OutboundRow,
    attempts: type[AttemptRow],
    claim: Claim,
    outcome: Outcome,
    capabilities: Capabilities,
) -> Judgement:
    """Write what a call ended in. The caller holds the row's lock and has checked `holds`."""
    _, facts = _read(type(row), row.pk)
    judgement = judge(facts, claim.purpose, claim.asked_at, outcome, capabilities)
    _note(attempts, row.pk, claim.lease, claim.purpose, at=facts.now, outcome=outcome)
    news = judgement.verdict not in (Verdict.STAY, Verdict.DOUBT)
    move(
        row,
        facts.now,
        judgement.verdict,
        look_after_seconds=judgement.look_after_seconds,
        in_doubt=judgement.in_doubt,
        refused_in_doubt=judgement.refused_in_doubt,
        quiet_looks=0 if news else row.quiet_looks + 1,
        deaths=0,
        attention=judgement.attention or row.attention,
        last_answer=_words(outcome),
        **({"absent_at": claim.asked_at} if judgement.absent else {}),
        **(_KEY_NEVER_TAKEN if judgement.verdict is Verdict.DEFER else {}),
    )
    return judgement


def move(
    row: OutboundRow,
    now: datetime,
    verdict: Verdict,
    *,
    look_after_seconds: float | None = None,
    **fields: Any,
) -> None:
    """Move a locked row along one edge, end any lease on it and say when to look again."""
    if verdict is not Verdict.STAY:
        fields["state"] = _TARGET[verdict]
    final = verdict in (Verdict.SUCCEED, Verdict.DECLINE, Verdict.GIVE_BACK)
    looks = look_after_seconds is not None and not final and verdict is not Verdict.PARK
    fields |= {
        "lease": row.lease + (row.lease_until is not None),
        "lease_until": None,
        "next_look_at": now + timedelta(seconds=look_after_seconds or 0) if looks else None,
    }
    if final:
        said = fields.get("attention", row.attention)
        fields |= {"finished_at": now, "attention": said if said in NEVER_RIGHTED else ""}
    if verdict is Verdict.GIVE_BACK:
        fields["attention"] = "returned_after_success"
    _write(row, fields)


def take_news(
    row: OutboundRow, purpose: Purpose, outcome: Outcome, capabilities: Capabilities
) -> Verdict:
    """Move a locked row by news that came without our asking; ends any lease on it.

    A worker that is calling meanwhile finds its lease gone and writes nothing.
    """
    _, facts = _read(type(row), row.pk)
    judgement = judge(facts, purpose, facts.now, outcome, capabilities)
    move(
        row,
        facts.now,
        judgement.verdict,
        look_after_seconds=judgement.look_after_seconds,
        attention=judgement.attention or row.attention,
        last_answer=_words(outcome),
    )
    return judgement.verdict


def raise_attention(row: OutboundRow, word: str) -> None:
    """Note on a locked row what a person must hear about."""
    _write(row, {"attention": word})


def look_now(row: OutboundRow, now: datetime) -> None:
    """Make a locked row due at once: a person wants to know, or news contradict what we know.

    A call that is under way loses its lease: what it brings home was asked before the news.
    """
    if row.state == TaskState.STUCK:
        move(row, now, Verdict.DOUBT, look_after_seconds=0, in_doubt=True, absent_at=None)
    elif row.state == TaskState.SENDING:
        move(row, now, Verdict.DOUBT, look_after_seconds=0, in_doubt=True)
    else:
        move(row, now, Verdict.STAY, look_after_seconds=0)


def proven_undone(row: OutboundRow, capabilities: Capabilities) -> bool:
    """Whether a look-up saw nothing at a time when nothing could be under way any more."""
    _, facts = _read(type(row), row.pk)
    return is_quiet(facts, facts.absent_at, capabilities)


def until_nothing_is_due(step: Callable[[], bool]) -> int:
    """Take steps while they are granted, within a bound; returns how many.

    Every outcome either ends the row or schedules a look, so what is left is found by the sweep.
    """
    taken = 0
    while taken < MOST_STEPS and step():
        taken += 1
    return taken


def worker_name() -> str:
    """Which process makes a call: host and pid, as written on every attempt."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _note(
    attempts: type[AttemptRow],
    row_id: int,
    lease: int,
    purpose: Purpose,
    *,
    at: datetime,
    outcome: Outcome | None = None,
    who: str = "",
) -> None:
    """Write one step of a call: its start, or with an outcome its end."""
    step: dict[str, Any] = {"row_id": row_id, "lease": lease, "purpose": purpose, "at": at}
    step["worker"] = (who or worker_name())[:100]
    if outcome is None:
        step["step"] = AttemptRow.Step.STARTED
    else:
        step["step"] = AttemptRow.Step.ENDED
        step |= {"outcome": type(outcome).__name__.lower(), "detail": _words(outcome)}
    attempts._default_manager.create(**step)


def _read(rows: type[OutboundRow], row_id: int) -> tuple[OutboundRow, Facts]:
    row = rows._default_manager.annotate(now=Now()).get(pk=row_id)
    return row, Facts(**{name: getattr(row, name) for name in Facts.__dataclass_fields__})


def _sending(
    row: OutboundRow, facts: Facts, lease_until: datetime, capabilities: Capabilities
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "state": TaskState.SENDING,
        "last_sent_at": facts.now,
        "last_send_ends_at": lease_until,
    }
    if row.first_sent_at is None:
        fields["first_sent_at"] = facts.now
        if capabilities.key_memory_seconds is not None:
            memory = timedelta(seconds=capabilities.key_memory_seconds)
            fields["safe_retry_until"] = facts.now + memory - KEY_MEMORY_MARGIN
    return fields


def _parked(facts: Facts, attention: str) -> dict[str, Any]:
    doubt = {"in_doubt": True} if facts.state == TaskState.SENDING else {}
    return {
        "state": TaskState.STUCK,
        "attention": attention,
        "lease_until": None,
        "next_look_at": None,
        **doubt,
    }


def _claimed(rows: type[OutboundRow], row: OutboundRow, **fields: Any) -> bool:
    """A counted UPDATE: unless exactly one row changed, somebody else has it."""
    unchanged = rows._default_manager.filter(
        pk=row.pk, state=row.state, lease=row.lease, lease_until=row.lease_until
    )
    return unchanged.update(**fields) == 1


def _write(row: OutboundRow, fields: dict[str, Any]) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**fields)
    for name, value in fields.items():
        setattr(row, name, value)


def _words(outcome: Outcome) -> str:
    said = (value for name, value in vars(outcome).items() if name != "alarm")
    parts = [str(value) for value in said if value not in (None, "", False)]
    words = " · ".join(parts)[:500]
    # The other side's words may hold what no text column takes.
    return words.encode(errors="replace").decode().replace("\0", "\ufffd")
