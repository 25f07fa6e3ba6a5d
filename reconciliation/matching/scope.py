"""Which rows a run looks at: everything of its window on any side, wherever its counterpart lies.

The window decides by the day of each side's own fact. A line or an entry whose counterpart was paid
outside the window brings that counterpart in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection

from payments.capabilities import BY_PROVIDER


@dataclass(frozen=True)
class Window:
    """Days from `first` to `last`, both included, in the store's time zone."""

    first: date
    last: date
    zone: str

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, time(), ZoneInfo(self.zone))

    @property
    def end(self) -> datetime:
        return datetime.combine(self.last + timedelta(days=1), time(), ZoneInfo(self.zone))


@dataclass(frozen=True)
class Subjects:
    """Single rows to look at again: payments, operations, loose refunds and loose entries."""

    payments: Sequence[int]
    operations: Sequence[int]
    lines: Sequence[int]
    entries: Sequence[int]


def by_hand() -> list[str]:
    """Providers without a list of their own: a person hands the money over."""
    return sorted(name for name, promise in BY_PROVIDER.items() if promise.by_person)


def open_window(window: Window) -> None:
    """Fill the scope tables with what a window holds."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        facts: dict[str, Any] = {"start": window.start, "end": window.end, "zone": window.zone}
        days = {"first": window.first, "last": window.last}
        cursor.execute(_PAYMENTS.format(where=_FINISHED_IN_WINDOW), facts)
        cursor.execute("ANALYZE scoped_payment")
        for rows in (_REFUNDS, _CHARGEBACKS):
            cursor.execute(rows.format(where="l.at >= %(start)s AND l.at < %(end)s"), facts)
        cursor.execute(_PAYMENTS_OF_REFUNDS, facts)
        cursor.execute(_OPERATIONS, facts)
        cursor.execute("ANALYZE scoped_operation")
        cursor.execute(_REFERENCES.format(where="e.posted_on BETWEEN %(first)s AND %(last)s"), days)
        cursor.execute(_OPERATIONS_OF_REFERENCES, facts)


def open_subjects(subjects: Subjects, zone: str) -> None:
    """Fill the scope tables with single rows."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        facts: dict[str, Any] = {
            "zone": zone,
            "payments": list(subjects.payments),
            "operations": list(subjects.operations),
            "lines": list(subjects.lines),
            "entries": list(subjects.entries),
        }
        cursor.execute(_PAYMENTS.format(where=_NAMED), facts)
        for rows in (_REFUNDS, _CHARGEBACKS):
            cursor.execute(rows.format(where=_SAME_REFUND), facts)
        cursor.execute(_PAYMENTS_OF_REFUNDS, facts)
        cursor.execute(_OPERATIONS, facts)
        cursor.execute(_REFERENCES.format(where="e.id = ANY(%(entries)s)"), facts)
        cursor.execute(_OPERATIONS_OF_REFERENCES, facts)


def close() -> None:
    """Drop the scope tables; the transaction may fill them anew."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {', '.join(_NAMES)}")


_NAMES = (
    "scoped_payment",
    "loose_refund",
    "scoped_operation",
    "loose_reference",
    "scoped_chargeback",
)

# `paid_on` is the day of the operation's last payment: all sides of a refund count for that day.
_TABLES = """
    CREATE TEMPORARY TABLE scoped_payment (
        id bigint, operation_id bigint, provider text, provider_refund text,
        expected_minor bigint, currency text, finished_at timestamptz, paid_on date
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE loose_refund (provider text, refund text) ON COMMIT DROP;
    CREATE TEMPORARY TABLE scoped_operation (
        id bigint, operation_key text, expected_minor bigint, currency text,
        finished_at timestamptz, paid_on date
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE loose_reference (reference text) ON COMMIT DROP;
    CREATE TEMPORARY TABLE scoped_chargeback (id bigint) ON COMMIT DROP;
"""

_CHARGEBACKS = """
    INSERT INTO scoped_chargeback
    SELECT l.id FROM reconciliation_settlementline l
    WHERE l.kind IN ('chargeback', 'chargeback_reversed') AND {where}
"""

_SETTLED = "t.state IN ('succeeded', 'returned')"
_FINISHED_IN_WINDOW = f"{_SETTLED} AND t.finished_at >= %(start)s AND t.finished_at < %(end)s"
_NAMED = f"{_SETTLED} AND (t.id = ANY(%(payments)s) OR t.operation_id = ANY(%(operations)s))"

_SAME_REFUND = """(l.provider, l.refund) IN (
    SELECT s.provider, s.refund FROM reconciliation_settlementline s WHERE s.id = ANY(%(lines)s)
)"""

_PAYMENTS = """
    INSERT INTO scoped_payment
    SELECT t.id, t.operation_id, t.provider, t.provider_refund,
        CASE t.state WHEN 'succeeded' THEN t.amount_minor ELSE 0 END, t.currency, t.finished_at,
        (max(t.finished_at) OVER (PARTITION BY t.operation_id) AT TIME ZONE %(zone)s)::date
    FROM payments_paymenttask t
    WHERE {where}
"""

# Refunds with lines in scope that no payment in scope knows.
_REFUNDS = """
    INSERT INTO loose_refund
    SELECT DISTINCT l.provider, l.refund
    FROM reconciliation_settlementline l
    LEFT JOIN scoped_payment p ON p.provider = l.provider AND p.provider_refund = l.refund
    WHERE l.kind IN ('refund', 'refund_returned') AND {where} AND p.id IS NULL
"""

# Where a payment knows the refund after all, it lies outside the window: look at that payment.
_PAYMENTS_OF_REFUNDS = f"""
    WITH known AS (
        DELETE FROM loose_refund l
        USING payments_paymenttask t
        WHERE t.provider = l.provider AND t.provider_refund = l.refund AND {_SETTLED}
        RETURNING t.id
    )
    INSERT INTO scoped_payment
    SELECT t.id, t.operation_id, t.provider, t.provider_refund,
        CASE t.state WHEN 'succeeded' THEN t.amount_minor ELSE 0 END, t.currency, t.finished_at,
        (t.finished_at AT TIME ZONE %(zone)s)::date
    FROM payments_paymenttask t
    WHERE t.id IN (SELECT id FROM known)
"""  # noqa: S608 - our own words only

_OPERATIONS = """
    INSERT INTO scoped_operation
    SELECT o.id, o.operation_key::text, o.refunded_minor, min(p.currency),
        max(p.finished_at), max(p.paid_on)
    FROM scoped_payment p
    JOIN returns_refundoperation o ON o.id = p.operation_id
    GROUP BY o.id
"""

_REFERENCES = """
    INSERT INTO loose_reference
    SELECT DISTINCT e.reference
    FROM reconciliation_erpentry e
    LEFT JOIN scoped_operation o ON o.operation_key = e.reference
    WHERE {where} AND o.id IS NULL
"""

_OPERATIONS_OF_REFERENCES = """
    WITH named AS (
        DELETE FROM loose_reference e
        USING returns_refundoperation o
        WHERE o.operation_key = CASE
            WHEN e.reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN e.reference::uuid
        END
        RETURNING o.id, e.reference
    )
    INSERT INTO scoped_operation
    SELECT o.id, o.operation_key::text, o.refunded_minor, o.currency,
        max(t.finished_at),
        coalesce((max(t.finished_at) AT TIME ZONE %(zone)s)::date, (
            SELECT min(e.posted_on) FROM reconciliation_erpentry e
            WHERE e.reference = o.operation_key::text
        ))
    FROM named n
    JOIN returns_refundoperation o ON o.id = n.id
    LEFT JOIN payments_paymenttask t
        ON t.operation_id = o.id AND t.state IN ('succeeded', 'returned')
    GROUP BY o.id
"""
