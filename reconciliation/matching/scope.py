"""Which rows are looked at closely: all that does not agree at first sight, and what is still open.

The subjects (payments, operations, refunds, references) come from `first_sight` or from the queue;
here each is brought together with its counterpart, wherever and whenever that lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
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


def by_hand() -> list[str]:
    """Providers without a list of their own: a person hands the money over."""
    return sorted(name for name, promise in BY_PROVIDER.items() if promise.by_person)


def begin() -> None:
    """Make the tables of subjects and of rows to look at, empty."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)


def name_open_items() -> None:
    """Make subjects of everything that an earlier run has found and nobody has closed."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_ITEMS)


def bring_together(zone: str) -> None:
    """Fill the scope from the subjects, counterparts included."""
    with connection.cursor() as cursor:
        for statement in (PAYMENTS_OF_REFUNDS, OPERATIONS_OF_REFERENCES, _ANALYZE_SUBJECTS):
            cursor.execute(statement)
        for statement in (_PAYMENTS, _OPERATIONS):
            cursor.execute(statement, {"zone": zone})
        cursor.execute(_ANALYZE)


def close() -> None:
    """Drop the tables; the transaction may begin anew."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {', '.join(_NAMES)}")


_NAMES = (
    *("subject_payment", "subject_operation", "subject_chargeback"),
    *("loose_refund", "loose_reference", "scoped_payment", "scoped_operation"),
)
_ANALYZE_SUBJECTS = "ANALYZE subject_payment, subject_operation"
_ANALYZE = "ANALYZE scoped_payment, scoped_operation, loose_refund, loose_reference"

# A refund counts for the day its payment was settled, a credit for the day of the last payment.
_TABLES = """
    CREATE TEMPORARY TABLE subject_payment (id bigint) ON COMMIT DROP;
    CREATE TEMPORARY TABLE subject_operation (id bigint) ON COMMIT DROP;
    CREATE TEMPORARY TABLE subject_chargeback (provider text, refund text) ON COMMIT DROP;
    CREATE TEMPORARY TABLE loose_refund (provider text, refund text) ON COMMIT DROP;
    CREATE TEMPORARY TABLE loose_reference (reference text) ON COMMIT DROP;
    CREATE TEMPORARY TABLE scoped_payment (
        id bigint, operation_id bigint, provider text, provider_refund text,
        expected_minor bigint, currency text, finished_at timestamptz, paid_on date
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE scoped_operation (
        id bigint, operation_key text, expected_minor bigint, currency text,
        finished_at timestamptz, paid_on date
    ) ON COMMIT DROP;
"""

_OPEN = "m.status = 'open' AND m.run_id IS NOT NULL"
_OPEN_ITEMS = f"""
    INSERT INTO subject_payment
    SELECT DISTINCT payment_id FROM reconciliation_mismatch m
    WHERE {_OPEN} AND payment_id IS NOT NULL;
    INSERT INTO subject_operation
    SELECT DISTINCT operation_id FROM reconciliation_mismatch m
    WHERE {_OPEN} AND operation_id IS NOT NULL;
    INSERT INTO loose_refund
    SELECT DISTINCT l.provider, l.refund FROM reconciliation_mismatch m
    JOIN reconciliation_settlementline l ON l.id = m.line_id
    WHERE {_OPEN} AND m.payment_id IS NULL;
    INSERT INTO loose_reference
    SELECT DISTINCT e.reference FROM reconciliation_mismatch m
    JOIN reconciliation_erpentry e ON e.id = m.entry_id
    WHERE {_OPEN} AND m.operation_id IS NULL;
    INSERT INTO subject_chargeback
    SELECT DISTINCT l.provider, l.refund FROM reconciliation_mismatch m
    JOIN reconciliation_settlementline l ON l.id = m.line_id
    WHERE {_OPEN} AND m.kind = 'chargeback_beside_refund';
"""  # noqa: S608 - our own words only

_SETTLED = "t.state IN ('succeeded', 'returned')"
_PAYMENT = """
    t.id, t.operation_id, t.provider, t.provider_refund,
    CASE t.state WHEN 'succeeded' THEN t.amount_minor ELSE 0 END, t.currency, t.finished_at,
    (t.finished_at AT TIME ZONE %(zone)s)::date
"""

_PAYMENTS = f"""
    INSERT INTO scoped_payment
    SELECT {_PAYMENT}
    FROM payments_paymenttask t
    WHERE {_SETTLED} AND t.id IN (SELECT id FROM subject_payment)
"""  # noqa: S608 - our own words only

# Where a payment knows the refund after all, or an operation the reference, look at that.
PAYMENTS_OF_REFUNDS = f"""
    ANALYZE loose_refund;
    WITH known AS (
        DELETE FROM loose_refund l
        USING payments_paymenttask t
        WHERE t.provider = l.provider AND t.provider_refund = l.refund AND {_SETTLED}
        RETURNING t.id
    )
    INSERT INTO subject_payment
    SELECT id FROM known WHERE id NOT IN (SELECT id FROM subject_payment)
"""  # noqa: S608 - our own words only

OPERATIONS_OF_REFERENCES = """
    ANALYZE loose_reference;
    WITH known AS (
        DELETE FROM loose_reference e
        USING returns_refundoperation o
        WHERE o.operation_key = CASE
            WHEN e.reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN e.reference::uuid
        END
        RETURNING o.id
    )
    INSERT INTO subject_operation
    SELECT id FROM known WHERE id NOT IN (SELECT id FROM subject_operation)
"""

_OPERATIONS = f"""
    INSERT INTO scoped_operation
    SELECT o.id, o.operation_key::text, o.refunded_minor, o.currency, max(t.finished_at),
        coalesce(
            (max(t.finished_at) FILTER (WHERE t.state = 'succeeded') AT TIME ZONE %(zone)s)::date,
            (max(t.finished_at) AT TIME ZONE %(zone)s)::date,
            (
                SELECT min(e.posted_on) FROM reconciliation_erpentry e
                WHERE e.reference = o.operation_key::text
            )
        )
    FROM returns_refundoperation o
    LEFT JOIN payments_paymenttask t ON t.operation_id = o.id AND {_SETTLED}
    WHERE o.id IN (SELECT id FROM subject_operation)
    GROUP BY o.id
"""  # noqa: S608 - our own words only
