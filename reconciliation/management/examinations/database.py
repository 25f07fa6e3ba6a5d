"""The database: there, new enough, migrated, guarded by its triggers, and with the same clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pgtrigger
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from reconciliation.management.examinations.finding import Finding

_OLDEST_VERSION = 15
# Leases live on the database's clock, webhook ages on ours; the margins are a few seconds.
_MOST_SKEW_SECONDS = 2


def examine() -> Iterator[Finding]:
    """Findings about the database; the first that is not well may be the last."""
    try:
        connection.ensure_connection()
    except DatabaseError as error:
        # Never the address: it has a password in it.
        first_line = str(error).strip().partition("\n")[0]
        yield Finding("database", False, first_line, "Start PostgreSQL, or correct DATABASE_URL.")
        return
    yield _version()
    migrations = _migrations()
    yield migrations
    if migrations.ok:
        yield _triggers()
    yield _time_zone()
    yield _clock()


def is_ready() -> bool:
    """Whether the tables can be asked."""
    try:
        return _migrations().ok
    except DatabaseError:
        return False


def _version() -> Finding:
    text = _value("SHOW server_version")
    return Finding(
        "database version",
        int(text.split(".")[0]) >= _OLDEST_VERSION,
        f"PostgreSQL {text}",
        f"Move to PostgreSQL {_OLDEST_VERSION} or newer.",
    )


def _migrations() -> Finding:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    found = f"{len(missing)} to apply" if missing else "all applied"
    return Finding("migrations", not missing, found, "Run manage.py migrate.")


def _triggers() -> Finding:
    states = {
        f"{model._meta.label}:{trigger.name}": trigger.get_installation_status(model)
        for model, trigger in pgtrigger.registered()
    }
    wrong = [
        f"{name} {state.lower()}{'' if enabled else ', switched off'}"
        for name, (state, enabled) in states.items()
        if state != "INSTALLED" or not enabled
    ]
    return Finding(
        "triggers",
        not wrong,
        "; ".join(wrong) or f"{len(states)} installed",
        "Run manage.py pgtrigger install and manage.py pgtrigger enable.",
    )


def _time_zone() -> Finding:
    zone, session = settings.STORE_TIME_ZONE, _value("SHOW timezone")
    if _value("SELECT count(*) FROM pg_timezone_names WHERE name = %s", zone) == "0":
        found, advice = f"the server does not know {zone}", "Install its time-zone data."
        return Finding("database time zone", False, found, advice)
    return Finding(
        "database time zone",
        session == "UTC",
        session,
        "Let the connection use UTC: remove the TIME_ZONE of the database.",
    )


def _clock() -> Finding:
    began = time.time()
    theirs = datetime.fromisoformat(_value("SELECT clock_timestamp()::text"))
    ours = datetime.fromtimestamp((began + time.time()) / 2, UTC)
    skew_seconds = abs((theirs - ours).total_seconds())
    return Finding(
        "clock against the database",
        skew_seconds <= _MOST_SKEW_SECONDS,
        f"{skew_seconds:.2f} s apart",
        "Let both machines follow the same time server (NTP).",
    )


def _value(sql: str, *parameters: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return str(cursor.fetchone()[0])
