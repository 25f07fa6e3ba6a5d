"""Reconcile a window of days: compare, open what differs, close what has become right, add up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from reconciliation.matching import findings, scope
from reconciliation.matching.scope import Subjects, Window
from reconciliation.models import DailyTotal, Mismatch, ReconciliationRun
from returns.errors import Invalid, WrongState
from returns.permissions import require

# A run that has not finished by then was killed; the next one takes its place.
LONGEST_RUN = timedelta(hours=6)

Say = Callable[[str], None]


def reconcile(
    *, first: date, last: date, by: User | None, collect: Callable[[Window, Say], None]
) -> ReconciliationRun:
    """Compare the three sides of everything from `first` to `last`, days of the store.

    `collect` brings in what provider and ERP list for the window; it runs outside any transaction.
    `by` is None for the nightly run. Raises NotAllowed (role), Invalid for days that are none, and
    WrongState while another run is under way.
    """
    if by is not None:
        require(by, "reconcile")
    if first > last:
        raise Invalid({"from": "The first day must not be after the last."})
    run = _begin(first, last, by)
    window = Window(first, last, settings.STORE_TIME_ZONE)
    try:
        collect(window, lambda stage: _say(run, stage))
        _say(run, "comparing")
        _match(run, window)
    except BaseException as error:
        _end(run, ReconciliationRun.State.FAILED, repr(error))
        raise
    _end(run, ReconciliationRun.State.FINISHED, "")
    return run


def _begin(first: date, last: date, by: User | None) -> ReconciliationRun:
    now = timezone.now()
    ReconciliationRun.objects.filter(
        state=ReconciliationRun.State.RUNNING, started_at__lt=now - LONGEST_RUN
    ).update(state=ReconciliationRun.State.FAILED, stage="never finished", finished_at=now)
    try:
        with transaction.atomic():
            return ReconciliationRun.objects.create(
                first=first, last=last, started_by=by, started_at=now
            )
    except IntegrityError:
        raise WrongState("Another reconciliation is under way; wait for it to finish.") from None


def _say(run: ReconciliationRun, stage: str) -> None:
    ReconciliationRun.objects.filter(pk=run.pk).update(stage=stage[:100])


def _end(run: ReconciliationRun, state: ReconciliationRun.State, stage: str) -> None:
    run.state, run.stage, run.finished_at = state, stage[:100], timezone.now()
    run.save(update_fields=["state", "stage", "finished_at", "opened", "closed"])


@transaction.atomic
def _match(run: ReconciliationRun, window: Window) -> None:
    """One transaction, so that the queue and the totals are of the same moment."""
    known = list(Mismatch.objects.filter(status=Mismatch.Status.OPEN, run__isnull=False))
    scope.open_window(window)
    _find(run, window)
    run.opened = _open(run)
    _keep_totals(run)
    scope.close()
    findings.forget()
    if known:
        scope.open_subjects(_subjects(known), window.zone)
        _find(run, window)
        run.closed = _close([mismatch.pk for mismatch in known])
        run.opened += _open(run)
        scope.close()
        findings.forget()


def _find(run: ReconciliationRun, window: Window) -> None:
    due = run.started_at - timedelta(seconds=settings.RECONCILIATION_GRACE_SECONDS)
    findings.find(lines_due=due, credits_due=due, zone=window.zone)


def _subjects(mismatches: list[Mismatch]) -> Subjects:
    def named(attribute: str) -> list[int]:
        return [pk for m in mismatches if (pk := getattr(m, attribute)) is not None]

    return Subjects(named("payment_id"), named("operation_id"), named("line_id"), named("entry_id"))


def _open(run: ReconciliationRun) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, {"run": run.pk, "now": timezone.now()})
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
    WHERE NOT ({_IN_THE_QUEUE})
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
