"""Reconcile a window of days: compare, open what differs, close what has become right, add up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from reconciliation.matching import findings, first_sight, scope
from reconciliation.matching.scope import Window
from reconciliation.models import DailyTotal, Mismatch, ReconciliationRun
from returns import locking
from returns.errors import Invalid, WrongState
from returns.permissions import require
from returns.timeline import refusals_are_recorded

# The name of the lock that a run holds from its beginning to its end.
RECONCILING = "reconciling"
# More days than this in one run are a typing error.
MOST_DAYS = 3660

State = ReconciliationRun.State
Say = Callable[[str], None]
Collect = Callable[[Window, Say], None]


@refusals_are_recorded("reconcile")
def ask(*, first: date, last: date, by: User) -> ReconciliationRun:
    """Ask for a run over these days; whoever runs what is due takes it up.

    Asking for what waits already gives that run. Raises NotAllowed (role), Invalid for days that
    are none, and WrongState while another run waits or is under way.
    """
    require(by, "reconcile")
    _refuse_odd_days(first, last)
    waiting = ReconciliationRun.objects.filter(state=State.WAITING, first=first, last=last).first()
    return waiting or _create(State.WAITING, first, last, by)


@refusals_are_recorded("reconcile")
def reconcile(*, first: date, last: date, by: User | None, collect: Collect) -> ReconciliationRun:
    """Compare the three sides of everything from `first` to `last`, days of the store.

    `collect` brings in what provider and ERP list for the window; it runs outside any transaction.
    `by` is None for the nightly run. Raises NotAllowed (role), Invalid for days that are none, and
    WrongState while another run is under way.
    """
    if by is not None:
        require(by, "reconcile")
    _refuse_odd_days(first, last)
    with locking.only_one(RECONCILING) as mine:
        if not mine:
            raise WrongState("Another reconciliation is under way; wait for it to finish.")
        _end_what_was_killed()
        return _carry_out(_create(State.RUNNING, first, last, by), collect)


def take_up(collect: Collect) -> ReconciliationRun | None:
    """Carry out the run that somebody has asked for, if one waits and none is under way."""
    if not ReconciliationRun.objects.filter(state__in=[State.WAITING, State.RUNNING]).exists():
        return None
    with locking.only_one(RECONCILING) as mine:
        if not mine:
            return None
        _end_what_was_killed()
        run = ReconciliationRun.objects.filter(state=State.WAITING).first()
        if run is None:
            return None
        run.state = State.RUNNING
        run.save(update_fields=["state"])
        return _carry_out(run, collect)


def _refuse_odd_days(first: date, last: date) -> None:
    if first > last:
        raise Invalid({"from": "The first day must not be after the last."})
    if (last - first).days >= MOST_DAYS:
        raise Invalid({"from": f"At most {MOST_DAYS} days in one run."})


def _create(state: State, first: date, last: date, by: User | None) -> ReconciliationRun:
    try:
        with transaction.atomic():
            return ReconciliationRun.objects.create(
                first=first, last=last, state=state, started_by=by, started_at=timezone.now()
            )
    except IntegrityError:
        raise WrongState("Another reconciliation waits or is under way already.") from None


def _end_what_was_killed() -> None:
    """We hold the lock, so whoever held it for a run that still says “running” is dead."""
    ReconciliationRun.objects.filter(state=State.RUNNING).update(
        state=State.FAILED, stage="was killed", finished_at=timezone.now()
    )


def _carry_out(run: ReconciliationRun, collect: Collect) -> ReconciliationRun:
    window = Window(run.first, run.last, settings.STORE_TIME_ZONE)
    try:
        collect(window, lambda stage: _say(run, stage))
        _say(run, "comparing")
        _match(run, window)
    except BaseException as error:
        # A connection that still works is kept: the lock is its own.
        if not connection.in_atomic_block and not connection.is_usable():
            connection.close()
        _end(run, State.FAILED, str(error) or repr(error))
        raise
    _end(run, State.FINISHED, "")
    return run


def _say(run: ReconciliationRun, stage: str) -> None:
    run.stage = stage[:100]
    run.save(update_fields=["stage"])


def _end(run: ReconciliationRun, state: State, stage: str) -> None:
    run.state, run.stage, run.finished_at = state, stage[:100], timezone.now()
    run.save(update_fields=["state", "stage", "finished_at", "opened", "closed"])


@transaction.atomic
def _match(run: ReconciliationRun, window: Window) -> None:
    """One transaction, so that the queue and the totals are of the same moment."""
    known = list(_open_items())
    _begin_comparing()
    first_sight.look(window)
    _find(run, window)
    run.opened = _open(run)
    _keep_totals(run)
    _end_comparing()
    if known:
        _begin_comparing()
        scope.name_open_items()
        _find(run, window)
        run.closed = _close(known)
        run.opened += _open(run, about=known)
        _end_comparing()


def _open_items() -> QuerySet[Mismatch, int]:
    items = Mismatch.objects.filter(status=Mismatch.Status.OPEN, run__isnull=False)
    return items.values_list("pk", flat=True)


def _begin_comparing() -> None:
    scope.begin()
    findings.begin()


def _find(run: ReconciliationRun, window: Window) -> None:
    due = run.started_at - timedelta(seconds=settings.RECONCILIATION_GRACE_SECONDS)
    scope.bring_together(window.zone)
    findings.find(lines_due=due, credits_due=due, zone=window.zone)


def _end_comparing() -> None:
    scope.close()
    findings.forget()


def _open(run: ReconciliationRun, about: list[int] | None = None) -> int:
    """Open what is not in the queue; `about` limits it to the subjects of these items."""
    facts: dict[str, Any] = {"run": run.pk, "now": timezone.now(), "about": about}
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, facts)
        return int(cursor.rowcount)


def _close(known: list[int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, {"known": known, "now": timezone.now()})
        return int(cursor.rowcount)


def _keep_totals(run: ReconciliationRun) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS)
        rows = cursor.fetchall()
    DailyTotal.objects.bulk_create(
        DailyTotal(
            run=run,
            side=side,
            day=day,
            currency=currency,
            expected_minor=expected,
            found_minor=found,
            under_way_minor=under_way,
            explained_minor=explained,
        )
        for side, day, currency, expected, found, under_way, explained in rows
    )


# A difference that is open, or that a person has closed with these very figures, is in the queue;
# so is one that the sweep has found before us.
_IN_THE_QUEUE = """
    EXISTS (
        SELECT 1 FROM reconciliation_mismatch m
        WHERE m.kind = f.kind AND m.subject = f.subject AND m.found_minor = f.found_minor
            AND (m.status = 'open' OR m.resolution <> 'righted')
    ) OR EXISTS (
        SELECT 1 FROM reconciliation_mismatch m
        WHERE m.payment_id = f.payment_id AND m.kind = f.kind
            AND m.subject = '' AND m.status = 'open'
    ) OR EXISTS (
        SELECT 1 FROM reconciliation_mismatch m
        WHERE m.operation_id = f.operation_id AND m.posting_id IS NOT NULL AND m.status = 'open'
            AND f.side = 'books' AND m.subject = ''
    )
"""

# What was right for a while and differs again is a new item.
_OPEN = f"""
    INSERT INTO reconciliation_mismatch (
        fingerprint, kind, subject, status, run_id, payment_id, operation_id, line_id, entry_id,
        day, expected_minor, found_minor, at_stake_minor, currency, detail, opened_at,
        resolution, reason
    )
    SELECT concat_ws(':', f.kind, f.subject, f.found_minor, (
            SELECT nullif(count(*), 0) FROM reconciliation_mismatch m
            WHERE m.kind = f.kind AND m.subject = f.subject AND m.found_minor = f.found_minor
        )),
        f.kind, f.subject, 'open', %(run)s, f.payment_id, f.operation_id, f.line_id, f.entry_id,
        f.day, f.expected_minor, f.found_minor,
        CASE WHEN f.found_minor = f.expected_minor THEN abs(f.found_minor)
            ELSE abs(f.found_minor - f.expected_minor) END,
        f.currency, f.detail, %(now)s, '', ''
    FROM finding f
    WHERE NOT ({_IN_THE_QUEUE}) AND (%(about)s::bigint[] IS NULL OR f.subject IN (
        SELECT m.subject FROM reconciliation_mismatch m WHERE m.id = ANY(%(about)s)
    ))
    ON CONFLICT (fingerprint) DO NOTHING
"""  # noqa: S608 - our own words only

_CLOSE = """
    UPDATE reconciliation_mismatch m
    SET status = 'resolved', resolution = 'righted', resolved_at = %(now)s,
        reason = 'A later run compared both sides again: this difference is gone.'
    WHERE m.id = ANY(%(known)s) AND m.status = 'open' AND NOT EXISTS (
        SELECT 1 FROM finding f
        WHERE f.kind = m.kind AND f.subject = m.subject AND f.found_minor = m.found_minor
    )
"""

_TOTALS = f"""
    WITH explained AS (
        SELECT f.side, f.day, f.currency, f.found_minor - f.expected_minor AS minor
        FROM finding f WHERE f.side <> '' AND ({_IN_THE_QUEUE})
        UNION ALL
        SELECT f.side, f.day, f.other_currency, f.other_minor
        FROM finding f WHERE f.other_currency IS NOT NULL AND ({_IN_THE_QUEUE})
    ),
    figures AS (
        SELECT side, day, currency, expected_minor, found_minor, under_way_minor,
            0 AS explained_minor
        FROM daily
        UNION ALL
        SELECT side, day, currency, 0, 0, 0, minor FROM explained
    )
    SELECT side, day, currency, sum(expected_minor)::bigint, sum(found_minor)::bigint,
        sum(under_way_minor)::bigint, sum(explained_minor)::bigint
    FROM figures GROUP BY side, day, currency ORDER BY day, currency, side
"""  # noqa: S608 - our own words only
