"""What does not agree, and the figures by day that the findings must explain.

Two statements look at the payments and at the operations in scope, the others at what belongs to
none of them and at chargebacks. Each writes its findings and its part of the totals in one pass.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection

from reconciliation.matching.scope import by_hand


def begin() -> None:
    """Make the tables of findings and of figures by day, empty."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)


def find(*, lines_due: datetime, credits_due: datetime, zone: str) -> None:
    """Add to `finding` and `daily` what the scope tables hold.

    Nothing is missing while it may still come: a payment settled after `lines_due` may lack its
    line, one settled after `credits_due` its credit. What is under way is told apart in `daily`.
    """
    facts: dict[str, Any] = {
        "lines_due": lines_due,
        "credits_due": credits_due,
        "zone": zone,
        "by_hand": by_hand(),
    }
    with connection.cursor() as cursor:
        for statement in (_PAYMENTS, _LINES, _CHARGEBACKS, _OPERATIONS, _ENTRIES, _CHANGED):
            cursor.execute(statement, facts if "%(" in statement else None)


def forget() -> None:
    """Drop the result tables; the transaction may fill them anew."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE finding, daily")


# `found - expected` is the difference; `daily` holds every figure, also where nothing differs.
_TABLES = """
    CREATE TEMPORARY TABLE finding (
        kind text, subject text, side text, day date, currency text,
        expected_minor bigint, found_minor bigint, other_currency text, other_minor bigint,
        payment_id bigint, operation_id bigint, line_id bigint, entry_id bigint, detail text
    ) ON COMMIT DROP;
    CREATE TEMPORARY TABLE daily (
        side text, day date, currency text,
        expected_minor numeric, found_minor numeric, under_way_minor numeric
    ) ON COMMIT DROP;
"""

_PAYMENTS = """
    WITH compared AS MATERIALIZED (
        SELECT p.id, p.operation_id, p.provider_refund, p.expected_minor, p.currency,
            p.finished_at, p.paid_on,
            coalesce(sum(l.amount_minor) FILTER (WHERE l.currency = p.currency), 0) AS found_minor,
            count(l.id) AS lines,
            count(l.id) FILTER (WHERE l.kind = 'refund') AS refunds,
            bool_or(l.kind = 'refund_returned') AS came_back,
            min(l.currency) FILTER (WHERE l.currency <> p.currency) AS other_currency,
            sum(l.amount_minor) FILTER (WHERE l.currency <> p.currency) AS other_minor,
            max(l.id) AS line_id
        FROM scoped_payment p
        LEFT JOIN reconciliation_settlementline l
            ON l.provider = p.provider AND l.refund = p.provider_refund
            AND l.kind IN ('refund', 'refund_returned')
        WHERE p.provider <> ALL(%(by_hand)s)
        GROUP BY p.id, p.operation_id, p.provider_refund, p.expected_minor, p.currency,
            p.finished_at, p.paid_on
    ),
    judged AS (
        SELECT *, CASE
            WHEN lines = 0 AND expected_minor > 0 AND finished_at < %(lines_due)s
                THEN 'paid_not_at_provider'
            WHEN lines = 0 THEN ''
            WHEN other_currency IS NOT NULL THEN 'currency_differs'
            WHEN found_minor = expected_minor THEN ''
            WHEN refunds > 1 THEN 'more_than_one_payment'
            WHEN came_back AND found_minor = 0 THEN 'returned_after_success'
            WHEN expected_minor = 0 AND finished_at >= %(lines_due)s THEN ''
            ELSE 'amount_differs'
        END AS kind
        FROM compared
    ),
    told AS (
        INSERT INTO daily
        SELECT 'provider', paid_on, currency, sum(expected_minor), sum(found_minor),
            coalesce(sum(found_minor - expected_minor) FILTER (WHERE kind = ''), 0)
        FROM judged GROUP BY paid_on, currency
    ),
    told_elsewhere AS (
        INSERT INTO daily
        SELECT 'provider', paid_on, other_currency, 0, sum(other_minor), 0
        FROM judged WHERE other_currency IS NOT NULL GROUP BY paid_on, other_currency
    )
    INSERT INTO finding
    SELECT kind, 'payment:' || id, 'provider', paid_on, currency, expected_minor, found_minor,
        other_currency, other_minor, id, operation_id, line_id, NULL, provider_refund
    FROM judged WHERE kind <> ''
"""

# Money that left and that no payment of ours knows: by what its reference says.
_LINES = """
    WITH loose AS MATERIALIZED (
        SELECT l.provider, l.refund, l.currency, max(l.operation) AS operation,
            sum(l.amount_minor) AS found_minor, max(l.id) AS line_id,
            (min(l.at) AT TIME ZONE %(zone)s)::date AS day
        FROM loose_refund
        JOIN reconciliation_settlementline l USING (provider, refund)
        WHERE l.kind IN ('refund', 'refund_returned')
        GROUP BY l.provider, l.refund, l.currency
    ),
    judged AS MATERIALIZED (
        SELECT loose.*, o.id AS operation_id, CASE
            WHEN found_minor = 0 THEN ''
            WHEN EXISTS (
                SELECT 1 FROM returns_externalrefund x
                JOIN returns_tender n ON n.id = x.tender_id
                WHERE n.provider = loose.provider AND x.reference = loose.refund
            ) THEN 'external'
            WHEN EXISTS (
                SELECT 1 FROM payments_paymenttask t
                WHERE t.operation_id = o.id AND t.state NOT IN ('succeeded', 'declined', 'returned')
            ) THEN ''
            WHEN o.id IS NOT NULL THEN 'more_than_one_payment'
            WHEN loose.operation <> '' THEN 'reference_damaged'
            ELSE 'payment_without_operation'
        END AS kind
        FROM loose
        LEFT JOIN returns_refundoperation o ON o.operation_key = CASE
            WHEN loose.operation ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            THEN loose.operation::uuid
        END
    ),
    told AS (
        INSERT INTO daily
        SELECT 'provider', day, currency,
            coalesce(sum(found_minor) FILTER (WHERE kind = 'external'), 0), sum(found_minor),
            coalesce(sum(found_minor) FILTER (WHERE kind = ''), 0)
        FROM judged GROUP BY day, currency
    )
    INSERT INTO finding
    SELECT kind, 'refund:' || provider || ':' || refund || ':' || currency, 'provider', day,
        currency, 0, found_minor, NULL, NULL, NULL, operation_id, line_id, NULL,
        refund || CASE WHEN operation = '' THEN '' ELSE ' · ' || operation END
    FROM judged WHERE kind NOT IN ('', 'external')
"""

# A customer who was refunded by us and by the bank as well. It is no difference between the books.
_CHARGEBACKS = """
    INSERT INTO finding
    SELECT 'chargeback_beside_refund', 'chargeback:' || c.provider || ':' || c.refund, '',
        (min(c.at) AT TIME ZONE %(zone)s)::date, c.currency, 0, sum(c.amount_minor),
        NULL, NULL, min(t.id), min(t.operation_id), min(c.id), NULL, c.refund
    FROM subject_chargeback
    JOIN reconciliation_settlementline c USING (provider, refund)
    JOIN returns_tender n ON n.provider = c.provider AND n.payment = c.payment
    JOIN LATERAL (
        SELECT t.id, t.operation_id FROM payments_paymenttask t
        WHERE t.tender_id = n.id AND t.state = 'succeeded' ORDER BY t.id LIMIT 1
    ) t ON true
    WHERE c.kind IN ('chargeback', 'chargeback_reversed')
    GROUP BY c.provider, c.refund, c.currency
    HAVING sum(c.amount_minor) > 0
"""

_OPERATIONS = """
    WITH compared AS MATERIALIZED (
        SELECT o.id, o.operation_key, o.expected_minor, o.currency, o.finished_at, o.paid_on,
            coalesce(sum(e.amount_minor) FILTER (WHERE e.currency = o.currency), 0) AS found_minor,
            count(e.id) AS credits, max(e.id) AS entry_id,
            min(e.currency) FILTER (WHERE e.currency <> o.currency) AS other_currency,
            sum(e.amount_minor) FILTER (WHERE e.currency <> o.currency) AS other_minor
        FROM scoped_operation o
        LEFT JOIN reconciliation_erpentry e ON e.reference = o.operation_key
        GROUP BY o.id, o.operation_key, o.expected_minor, o.currency, o.finished_at, o.paid_on
    ),
    judged AS (
        SELECT *, CASE
            WHEN credits = 0 AND expected_minor > 0 AND finished_at < %(credits_due)s
                THEN 'credit_missing'
            WHEN credits = 0 THEN ''
            WHEN other_currency IS NOT NULL THEN 'currency_differs'
            WHEN found_minor = expected_minor THEN ''
            WHEN credits > 1 THEN 'more_than_one_credit'
            WHEN expected_minor = 0 THEN 'credit_without_payment'
            ELSE 'credit_amount_differs'
        END AS kind
        FROM compared
    ),
    told AS (
        INSERT INTO daily
        SELECT 'books', paid_on, currency, sum(expected_minor), sum(found_minor),
            coalesce(sum(found_minor - expected_minor) FILTER (WHERE kind = ''), 0)
        FROM judged GROUP BY paid_on, currency
    ),
    told_elsewhere AS (
        INSERT INTO daily
        SELECT 'books', paid_on, other_currency, 0, sum(other_minor), 0
        FROM judged WHERE other_currency IS NOT NULL GROUP BY paid_on, other_currency
    )
    INSERT INTO finding
    SELECT kind, 'operation:' || id, 'books', paid_on, currency, expected_minor, found_minor,
        other_currency, other_minor, NULL, id, NULL, entry_id, operation_key
    FROM judged WHERE kind <> ''
"""

# Credits whose reference names no operation of ours.
_ENTRIES = """
    WITH loose AS MATERIALIZED (
        SELECT e.reference, e.currency, sum(e.amount_minor) AS found_minor,
            min(e.posted_on) AS day, max(e.id) AS entry_id
        FROM loose_reference
        JOIN reconciliation_erpentry e USING (reference)
        GROUP BY e.reference, e.currency
    ),
    told AS (
        INSERT INTO daily
        SELECT 'books', day, currency, 0, sum(found_minor), 0 FROM loose GROUP BY day, currency
    )
    INSERT INTO finding
    SELECT CASE
            WHEN reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            THEN 'credit_without_payment' ELSE 'reference_damaged'
        END,
        'entry:' || reference || ':' || currency, 'books', day, currency, 0, found_minor,
        NULL, NULL, NULL, NULL, NULL, entry_id, reference
    FROM loose WHERE found_minor <> 0
"""

# A posted entry that the ERP lists otherwise than it once did. We go on counting what it was, so it
# is no difference between the books.
_CHANGED = """
    INSERT INTO finding
    SELECT 'credit_amount_differs', 'changed:' || e.entry, '', e.posted_on, e.currency,
        e.amount_minor, e.listed_minor, NULL, NULL, NULL, o.id, NULL, e.id,
        e.entry || ' is listed as ' || e.listed_as
    FROM reconciliation_erpentry e
    LEFT JOIN returns_refundoperation o ON o.operation_key = CASE
        WHEN e.reference ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN e.reference::uuid
    END
    WHERE e.listed_as <> ''
"""
