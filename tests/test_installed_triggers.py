"""A database without its triggers is told, but not to the `migrate` that is about to make them."""

from __future__ import annotations

import pytest
from django.core.checks import Tags, run_checks
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

pytestmark = pytest.mark.django_db


def complaints() -> list[str]:
    told = run_checks(tags=[Tags.database], databases=["default"])
    return [message.msg for message in told if message.id == "refunds.E004"]


def switch_one_off() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE reconciliation_erpentry DISABLE TRIGGER USER")


def test_a_trigger_that_is_switched_off_is_missing() -> None:
    assert complaints() == []
    switch_one_off()
    assert any("reconciliation_erpentry" in complaint for complaint in complaints())


def test_what_a_coming_migration_installs_is_not_missing_yet() -> None:
    """Without this a new version could never be installed over an older one."""
    switch_one_off()
    last = MigrationRecorder.Migration.objects.filter(app="reconciliation").latest("id")
    MigrationRecorder(connection).record_unapplied(last.app, last.name)
    assert complaints() == []
