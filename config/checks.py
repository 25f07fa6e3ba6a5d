"""What the product refuses to start with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlparse

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@register()
def queues_wait_longer_than_they_work(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """A message that comes again while its first delivery still runs is worked on twice."""
    shared: dict[str, Any] = settings.Q_CLUSTER
    queues = {shared["name"]: shared}
    queues |= {name: {**shared, **own} for name, own in shared["ALT_CLUSTERS"].items()}
    return [
        Error(
            f"Queue “{name}”: retry ({queue['retry']} s) must be longer than timeout "
            f"({queue['timeout']} s).",
            hint="Raise retry in Q_CLUSTER.",
            id="refunds.E001",
        )
        for name, queue in queues.items()
        if queue["retry"] <= queue["timeout"]
    ]


@register()
def a_lease_covers_its_call(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """A lease that ends before its call can end would let two workers call at once."""
    times = settings.OUTBOUND_TIMING
    if times["lease_seconds"] > times["call_seconds"] + times["margin_seconds"]:
        return []
    return [
        Error(
            "OUTBOUND_TIMING: the lease must be longer than the call and the margin together.",
            hint="Raise OUTBOUND_LEASE_SECONDS.",
            id="refunds.E002",
        )
    ]


@register()
def production_talks_to_no_sandbox(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Nobody is paid by a sandbox, and nobody should be told so."""
    if not settings.PRODUCTION:
        return []
    sandboxes = [
        name
        for name in ("STRIPE_API_BASE", "ERP_URL")
        if urlparse(getattr(settings, name)).hostname in LOOPBACK
    ]
    return [
        Error(
            f"{name} points at this machine: production does not run on sandboxes.",
            hint=f"Set {name} to the real address.",
            id="refunds.E003",
        )
        for name in sandboxes
    ]


@register()
def production_has_no_fail_points(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    """Nothing dies on purpose where money is real; `config.apps` arms nothing there either."""
    if not settings.PRODUCTION or not os.environ.get("FAIL_POINTS"):
        return []
    return [
        Error(
            "FAIL_POINTS is set: production does not fail on purpose.",
            hint="Remove FAIL_POINTS from the environment.",
            id="refunds.E005",
        )
    ]


@register(Tags.database)
def triggers_are_installed(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Without its triggers the database says no to nothing. Asked by `migrate` and `doctor`."""
    return [
        Error(
            f"Trigger {name} is not installed.",
            hint="Run manage.py migrate.",
            id="refunds.E004",
        )
        for alias in databases or []
        for name in missing_triggers(alias)
    ]


def missing_triggers(alias: str = "default") -> list[str]:
    """Names of the declared triggers that the database does not have, or has switched off."""
    import pgtrigger.registry  # noqa: PLC0415 - the registry fills while apps load

    declared = {
        (model._meta.db_table, trigger.get_pgid(model))
        for model, trigger in pgtrigger.registry.registered()
    }
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'"
        )
        present = set(cursor.fetchall())
    missing = sorted(f"{table}.{name}" for table, name in declared - present)
    # What a migration that is still to come will install is not missing.
    return missing if missing and _is_migrated(alias) else []


def _is_migrated(alias: str) -> bool:
    executor = MigrationExecutor(connections[alias])
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())
