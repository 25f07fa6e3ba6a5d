"""One discrepancy of each kind that a comparison can find: how to make it, how to mend it.

Each is SQL about operation `:n` of `tests.past`; the database's own guards are off meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection


class Seed(NamedTuple):
    """SQL that spoils the books of one operation, and SQL that mends them."""

    spoil: str
    mend: str


_LINES, _ENTRIES = "reconciliation_settlementline", "reconciliation_erpentry"
_THE_LINE = "identity = 'txn_past_:n'"
_THE_ENTRY = "entry = 'past-:n'"


def _changed(table: str, which: str, column: str, wrong: str, right: str) -> Seed:
    change = f"UPDATE {table} SET {column} = {{}} WHERE {which}"  # noqa: S608 - our own words
    return Seed(change.format(wrong), change.format(right))


def _gone(table: str, which: str) -> Seed:
    move = "WITH moved AS (DELETE FROM {} WHERE {} RETURNING *) INSERT INTO {} SELECT * FROM moved"
    hidden = f"hidden_{table}"
    return Seed(move.format(table, which, hidden), move.format(hidden, which, table))


def _one_more_line(
    *,
    kind: str = "refund",
    undone_by: str = "refund_returned",
    refund: str = "refund",
    operation: str = "''",
    minor: str = "1",
) -> Seed:
    """A line too many, and the line with which the provider takes it back."""
    line = f"""
        INSERT INTO {_LINES} (
            account, identity, provider, statement_id, number, kind, refund, payment, operation,
            amount_minor, currency, at
        )
        SELECT account, '%s_:n', provider, statement_id, 0, '%s', {refund}, payment,
            {operation}, %s({minor}), currency, at
        FROM {_LINES} WHERE {_THE_LINE}
    """  # noqa: S608 - our own words
    return Seed(line % ("seed", kind, ""), line % ("mend", undone_by, "-"))


def _one_more_entry(reference: str) -> Seed:
    """A credit too many, and the entry that reverses it."""
    entry = f"""
        INSERT INTO {_ENTRIES} (
            entry, reference, amount_minor, currency, posted_on, seen_at, listed_as
        )
        SELECT '%s-:n', {reference}, %samount_minor, currency, posted_on, seen_at, ''
        FROM {_ENTRIES} WHERE {_THE_ENTRY}
    """  # noqa: S608 - our own words
    return Seed(entry % ("seed", ""), entry % ("mend", "-"))


SEEDS = {
    "payment_without_operation": _one_more_line(refund="'re_seed_:n'"),
    "reference_damaged": _one_more_line(refund="'re_seed_:n'", operation="left(operation, 30)"),
    "more_than_one_payment": _one_more_line(refund="'re_seed_:n'", operation="operation"),
    "paid_not_at_provider": _gone(_LINES, _THE_LINE),
    "amount_differs": _changed(
        _LINES, _THE_LINE, "amount_minor", "amount_minor + 7", "amount_minor - 7"
    ),
    "currency_differs": _changed(
        _LINES, _THE_LINE, "currency", "'GBP'", "(ARRAY['EUR', 'USD', 'JPY'])[1 + :n % 3]"
    ),
    "returned_after_success": _one_more_line(
        kind="refund_returned", undone_by="refund", minor="-amount_minor"
    ),
    "chargeback_beside_refund": _one_more_line(
        kind="chargeback", undone_by="chargeback_reversed", refund="'dp_:n'"
    ),
    "credit_missing": _gone(_ENTRIES, _THE_ENTRY),
    "credit_amount_differs": _changed(
        _ENTRIES, _THE_ENTRY, "amount_minor", "amount_minor + 5", "amount_minor - 5"
    ),
    "credit_without_payment": _one_more_entry("md5('nobody :n')::uuid::text"),
    "more_than_one_credit": _one_more_entry("reference"),
}


def hide_and_seek() -> None:
    """Make the places where rows are kept while they are missing."""
    with connection.cursor() as cursor:
        for table in (_LINES, _ENTRIES):
            cursor.execute(f"CREATE TEMPORARY TABLE hidden_{table} (LIKE {table}) ON COMMIT DROP")


def run_for(sql: str, n: int) -> None:
    """Carry a seed's SQL out for operation n."""
    with connection.cursor() as cursor:
        cursor.execute(sql.replace(":n", str(n)))
        assert cursor.rowcount == 1
