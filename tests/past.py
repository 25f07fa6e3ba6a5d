"""A long past, written in bulk: operations that were paid and posted, with everyone's books.

The rows are those the verbs would have left; the triggers that forbid such shortcuts are switched
off meanwhile, which only the owner of the tables can do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import connection

from tests import factories

_TABLES = (
    *("returns_order", "returns_tender", "returns_orderbalance", "returns_tenderbalance"),
    *("returns_refundoperation", "payments_paymenttask", "reconciliation_erpposting"),
    *("reconciliation_settlementline", "reconciliation_erpentry"),
)


def write_past(operations: int, *, start: datetime, days: int, with_lines: bool = True) -> None:
    """Operations 1 to `operations`, one order each, paid evenly over these days.

    Operation n was refund `re_past_n` of payment `pi_past_n`, n minor units (modulo 100,000) of
    its currency, credited as ERP entry `past-n`; its settlement line, if wanted, is `txn_past_n`.
    """
    facts: dict[str, Any] = {
        "operations": operations,
        "start": start,
        "gap_seconds": days * 86_400 / operations,
        "desk": factories.desk().pk,
        "finance": factories.finance().pk,
    }
    with without_triggers(), connection.cursor() as cursor:
        for statement in (_NUMBERED, *_OURS, *(_LINES if with_lines else ()), *_ENTRIES):
            cursor.execute(statement, facts if "%(" in statement else None)


@contextmanager
def without_triggers(tables: Sequence[str] = _TABLES) -> Iterator[None]:
    """Rows may be written as no verb would; foreign keys and constraints hold all the same."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


_NUMBERED = """
    CREATE TEMPORARY TABLE past AS
    SELECT n, %(start)s::timestamptz + n * %(gap_seconds)s * interval '1 second' AS at,
        (ARRAY['EUR', 'USD', 'JPY'])[1 + n %% 3] AS currency, 1 + n %% 100000 AS minor,
        md5('operation ' || n)::uuid AS key
    FROM generate_series(1, %(operations)s) AS n
"""

_OURS = (
    """
    INSERT INTO returns_order (
        number, currency, placed_at, customer_reference, customer_name, customer_email,
        shipping_minor, delivered, facts_version, created_at
    )
    SELECT 'PAST-' || n, currency, at, '', '', '', minor, true, 1, at FROM past
    """,
    """
    INSERT INTO returns_tender (tender_id, provider, payment, label, amount_minor, order_id)
    SELECT 'card', 'stripe', 'pi_past_' || n, '', minor, o.id
    FROM past JOIN returns_order o ON o.number = 'PAST-' || n
    """,
    """
    INSERT INTO returns_orderbalance (
        captured_minor, reserved_minor, refunded_minor, external_minor, order_id
    )
    SELECT minor, 0, minor, 0, o.id FROM past JOIN returns_order o ON o.number = 'PAST-' || n
    """,
    """
    INSERT INTO returns_tenderbalance (
        captured_minor, reserved_minor, refunded_minor, external_minor, tender_id
    )
    SELECT minor, 0, minor, 0, t.id FROM past JOIN returns_tender t ON t.payment = 'pi_past_' || n
    """,
    """
    INSERT INTO returns_refundoperation (
        operation_key, subject_set, generation, state, state_changed_at, currency, amount_minor,
        refunded_minor, pay_rounds, version, taken_in_channel, taken_in_at, order_id, taken_in_by_id
    )
    SELECT key, 'shipping', 0, 'posted', at, past.currency, minor, minor, 1, 1, 'online', at,
        o.id, %(desk)s
    FROM past JOIN returns_order o ON o.number = 'PAST-' || n
    """,
    """
    INSERT INTO payments_paymenttask (
        state, lease, in_doubt, refused_in_doubt, deaths, quiet_looks, last_answer, attention,
        first_sent_at, last_sent_at, created_at, finished_at, generation, wire_key, provider,
        amount_minor, currency, provider_refund, operation_id, tender_id
    )
    SELECT 'succeeded', 1, false, false, 0, 0, '', '', at, at, at, at, 1,
        md5('wire ' || n)::uuid, 'stripe', minor, past.currency, 're_past_' || n, o.id, t.id
    FROM past
    JOIN returns_refundoperation o ON o.operation_key = key
    JOIN returns_tender t ON t.payment = 'pi_past_' || n
    """,
    """
    INSERT INTO reconciliation_erpposting (
        state, lease, in_doubt, refused_in_doubt, deaths, quiet_looks, last_answer, attention,
        created_at, finished_at, amount_minor, currency, refunded_on, entry, operation_id
    )
    SELECT 'succeeded', 1, false, false, 0, 0, '', '', at, at, minor, past.currency, at::date,
        'past-' || n, o.id
    FROM past JOIN returns_refundoperation o ON o.operation_key = key
    """,
)

_LINES = (
    """
    INSERT INTO reconciliation_settlementimport (
        source, name, sha256, imported_at, new, known, refused, other, imported_by_id
    )
    VALUES ('sandbox', 'past', '', now(), %(operations)s, 0, 0, 0, %(finance)s)
    """,
    """
    INSERT INTO reconciliation_settlementline (
        account, identity, provider, statement_id, number, kind, refund, payment, operation,
        amount_minor, currency, at
    )
    SELECT 'stripe', 'txn_past_' || n, 'stripe', i.id, n, 'refund', 're_past_' || n,
        'pi_past_' || n, key::text, minor, currency, at
    FROM past, (SELECT max(id) AS id FROM reconciliation_settlementimport) i
    """,
)

_ENTRIES = (
    """
    INSERT INTO reconciliation_erpentry (
        entry, reference, amount_minor, currency, posted_on, seen_at, listed_as
    )
    SELECT 'past-' || n, key::text, minor, currency, at::date, now(), '' FROM past
    """,
    "DROP TABLE past",
)
