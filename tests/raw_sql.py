"""What somebody with psql would try, and that the database says no to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Model
from psycopg.sql import SQL, Identifier

from tests.oracle import nothing_changes


@contextmanager
def says_no(because: str) -> Iterator[None]:
    """The database refuses the block for this reason (a pattern), and nothing has changed."""
    with (
        nothing_changes(),
        pytest.raises(DatabaseError, match=f"(?i){because}"),
        transaction.atomic(),
    ):
        yield


def change(row: Model, **values: Any) -> None:
    """UPDATE columns of one row."""
    assignments = SQL(", ").join(SQL("{} = %s").format(Identifier(name)) for name in values)
    _execute(
        SQL("UPDATE {table} SET {assignments} WHERE {key}"), row, values, assignments=assignments
    )


def copy(row: Model, **values: Any) -> None:
    """INSERT the same row again with other values in some columns."""
    columns = [str(f.column) for f in row._meta.concrete_fields if not f.primary_key]
    kept = [Identifier(name) for name in columns if name not in values]
    names = SQL(", ").join([*(Identifier(name) for name in values), *kept])
    taken = SQL(", ").join([*(SQL("%s") for _ in values), *kept])
    statement = SQL("INSERT INTO {table} ({names}) SELECT {taken} FROM {table} WHERE {key}")
    _execute(statement, row, values, names=names, taken=taken)


def delete(row: Model) -> None:
    """DELETE one row."""
    _execute(SQL("DELETE FROM {table} WHERE {key}"), row)


def _execute(
    statement: SQL, row: Model, values: dict[str, Any] | None = None, **parts: Any
) -> None:
    key = SQL("{} = %s").format(Identifier(str(row._meta.pk.column)))
    table = Identifier(row._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            statement.format(table=table, key=key, **parts), [*(values or {}).values(), row.pk]
        )
