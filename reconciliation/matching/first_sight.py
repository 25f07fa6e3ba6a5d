"""One look at all of a window: what agrees is added up, what does not becomes a subject.

Nearly everything agrees, row by row. So each side is joined and grouped once, in a statement that
the database may spread over its processes; what occurs more than once is taken out again and, like
everything that did not agree, looked at closely.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from reconciliation.matching import scope
from reconciliation.matching.scope import Window, by_hand


def look(window: Window) -> None:
    """Fill `daily` with what agrees, and the tables of subjects with everything else."""
    facts: dict[str, Any] = {
        "start": window.start,
        "end": window.end,
        "first": window.first,
        "last": window.last,
        "zone": window.zone,
        "by_hand": by_hand(),
    }
    with connection.cursor() as cursor:
        for statement in (_ROOM, *_PROVIDER, *_BOOKS, _CHARGEBACKS, _ROOM_NO_MORE):
            cursor.execute(statement, facts if "%(" in statement else None)


# For this transaction only: room for its hash tables, no compiling for seconds of work, and several
# processes and no sorting even where the planner expects many groups: it cannot know that nearly
# all agrees. The close look that follows is at few rows and needs none of it.
_ROOM = """
    SET LOCAL work_mem = '96MB';
    SET LOCAL jit = off;
    SET LOCAL enable_sort = off;
    SET LOCAL parallel_tuple_cost = 0;
    SET LOCAL parallel_setup_cost = 0;
"""

# What occurs more than once is next to itself in the index; hashing all of it takes four times as
# long.
_IN_ORDER = "SET LOCAL enable_hashagg = off"
_IN_ANY_ORDER = "SET LOCAL enable_hashagg = on"

_ROOM_NO_MORE = """
    SET LOCAL enable_sort = on;
    SET LOCAL parallel_tuple_cost TO DEFAULT;
    SET LOCAL parallel_setup_cost TO DEFAULT;
"""

_PAIRS_AT_PROVIDER = """
    SELECT p.id, l.provider, l.refund, p.day, p.currency, p.expected_minor, l.amount_minor,
        coalesce(p.expected_minor = l.amount_minor AND p.currency = l.currency, false) AS agrees
    FROM (
        SELECT t.id, t.provider, t.provider_refund, t.currency,
            (t.finished_at AT TIME ZONE %(zone)s)::date AS day,
            CASE t.state WHEN 'succeeded' THEN t.amount_minor ELSE 0 END AS expected_minor
        FROM payments_paymenttask t
        WHERE t.state IN ('succeeded', 'returned') AND t.provider <> ALL(%(by_hand)s)
            AND t.finished_at >= %(start)s AND t.finished_at < %(end)s {only}
    ) p
    {join} (
        SELECT provider, refund, currency, amount_minor FROM reconciliation_settlementline
        WHERE kind IN ('refund', 'refund_returned') AND at >= %(start)s AND at < %(end)s
    ) l ON l.provider = p.provider AND l.refund = p.provider_refund
"""

_ALL_AT_PROVIDER = _PAIRS_AT_PROVIDER.format(join="FULL JOIN", only="")
_SUBJECTS_AT_PROVIDER = _PAIRS_AT_PROVIDER.format(
    join="JOIN", only="AND t.id IN (SELECT id FROM subject_payment)"
)

_PROVIDER = (
    # Groups are the days, and each row that does not agree.
    f"""
    CREATE TEMPORARY TABLE seen ON COMMIT DROP AS
    SELECT CASE WHEN NOT agrees THEN id END AS id,
        CASE WHEN NOT agrees THEN provider END AS provider,
        CASE WHEN NOT agrees THEN refund END AS refund,
        CASE WHEN agrees THEN day END AS day, CASE WHEN agrees THEN currency END AS currency,
        sum(expected_minor) AS expected_minor, sum(amount_minor) AS found_minor
    FROM ({_ALL_AT_PROVIDER}) pairs
    GROUP BY 1, 2, 3, 4, 5
    """,  # noqa: S608 - our own words only
    "INSERT INTO subject_payment SELECT DISTINCT id FROM seen WHERE id IS NOT NULL",
    _IN_ORDER,
    # Several lines of one refund, of which some may lie outside the window.
    """
    INSERT INTO loose_refund
    SELECT provider, refund FROM seen WHERE id IS NULL AND refund IS NOT NULL
    UNION
    SELECT provider, refund FROM reconciliation_settlementline
    WHERE kind IN ('refund', 'refund_returned')
    GROUP BY provider, refund
    HAVING count(*) > 1 AND bool_or(at >= %(start)s AND at < %(end)s)
    """,
    _IN_ANY_ORDER,
    scope.PAYMENTS_OF_REFUNDS,
    "ANALYZE subject_payment",
    f"""
    INSERT INTO daily
    SELECT 'provider', day, currency, expected_minor, found_minor, 0
    FROM seen WHERE day IS NOT NULL
    UNION ALL
    SELECT 'provider', day, currency, -sum(expected_minor), -sum(amount_minor), 0
    FROM ({_SUBJECTS_AT_PROVIDER}) pairs WHERE agrees GROUP BY day, currency
    """,  # noqa: S608 - our own words only
    "DROP TABLE seen",
)

# An operation that agrees has one payment that has brought it all it says is refunded.
_PAIRS_IN_BOOKS = """
    SELECT o.id, e.reference, o.day, o.currency, o.expected_minor, e.amount_minor,
        coalesce(
            o.paid_at_once AND o.expected_minor = e.amount_minor AND o.currency = e.currency, false
        ) AS agrees
    FROM (
        SELECT o.id, o.operation_key::text AS reference, o.currency,
            o.refunded_minor AS expected_minor,
            (t.finished_at AT TIME ZONE %(zone)s)::date AS day,
            t.state = 'succeeded' AND t.amount_minor = o.refunded_minor AS paid_at_once
        FROM payments_paymenttask t
        JOIN returns_refundoperation o ON o.id = t.operation_id
        WHERE t.state IN ('succeeded', 'returned')
            AND t.finished_at >= %(start)s AND t.finished_at < %(end)s {only}
    ) o
    {join} (
        SELECT reference, currency, amount_minor FROM reconciliation_erpentry
        WHERE posted_on BETWEEN %(first)s AND %(last)s
    ) e ON e.reference = o.reference
"""

_ALL_IN_BOOKS = _PAIRS_IN_BOOKS.format(join="FULL JOIN", only="")
_SUBJECTS_IN_BOOKS = _PAIRS_IN_BOOKS.format(
    join="JOIN", only="AND o.id IN (SELECT id FROM subject_operation)"
)

_BOOKS = (
    f"""
    CREATE TEMPORARY TABLE seen ON COMMIT DROP AS
    SELECT CASE WHEN NOT agrees THEN id END AS id,
        CASE WHEN NOT agrees THEN reference END AS reference,
        CASE WHEN agrees THEN day END AS day, CASE WHEN agrees THEN currency END AS currency,
        sum(expected_minor) AS expected_minor, sum(amount_minor) AS found_minor
    FROM ({_ALL_IN_BOOKS}) pairs
    GROUP BY 1, 2, 3, 4
    """,  # noqa: S608 - our own words only
    "INSERT INTO subject_operation SELECT DISTINCT id FROM seen WHERE id IS NOT NULL",
    _IN_ORDER,
    """
    INSERT INTO loose_reference
    SELECT reference FROM seen WHERE id IS NULL AND reference IS NOT NULL
    UNION
    SELECT reference FROM reconciliation_erpentry
    GROUP BY reference
    HAVING count(*) > 1 AND bool_or(posted_on BETWEEN %(first)s AND %(last)s)
    """,
    _IN_ANY_ORDER,
    scope.OPERATIONS_OF_REFERENCES,
    "ANALYZE subject_operation",
    f"""
    INSERT INTO daily
    SELECT 'books', day, currency, expected_minor, found_minor, 0
    FROM seen WHERE day IS NOT NULL
    UNION ALL
    SELECT 'books', day, currency, -sum(expected_minor), -sum(amount_minor), 0
    FROM ({_SUBJECTS_IN_BOOKS}) pairs WHERE agrees GROUP BY day, currency
    """,  # noqa: S608 - our own words only
    "DROP TABLE seen",
)

_CHARGEBACKS = """
    INSERT INTO subject_chargeback
    SELECT DISTINCT c.provider, c.refund
    FROM reconciliation_settlementline c
    LEFT JOIN returns_tender n ON n.provider = c.provider AND n.payment = c.payment
    LEFT JOIN payments_paymenttask t ON t.tender_id = n.id AND t.state = 'succeeded'
    WHERE c.kind IN ('chargeback', 'chargeback_reversed') AND (
        (c.at >= %(start)s AND c.at < %(end)s)
        OR (t.finished_at >= %(start)s AND t.finished_at < %(end)s)
    )
"""
