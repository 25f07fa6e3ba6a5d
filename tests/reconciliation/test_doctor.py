"""`doctor`: silent when all is well, and with advice when something is not."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from payments.heartbeat import beat
from payments.models import ProviderHalt
from reconciliation.erp import erp as cached_erp
from reconciliation.sweeping import LOOPS
from tests.sandboxes import SandboxErp, SandboxProvider

NOBODY_LISTENS = "http://127.0.0.1:1"

pytestmark = pytest.mark.django_db


def findings(*, well: bool = False) -> dict[str, Any]:
    """What the doctor says is wrong, with what to do; `well` says which exit code must come."""
    output = StringIO()
    if well:
        call_command("doctor", json=True, stdout=output)
    else:
        with pytest.raises(SystemExit) as leaving:
            call_command("doctor", json=True, stdout=output)
        assert leaving.value.code == 1
    report = json.loads(output.getvalue())
    assert report["ok"] == well
    wrong = {f["about"]: f for f in report["findings"] if not f["ok"]}
    assert all(finding["advice"] for finding in wrong.values())
    return wrong


@pytest.fixture
def well(provider: SandboxProvider, erp: SandboxErp) -> None:
    """Everything is as it should be."""
    for loop in LOOPS:
        beat(loop)


@pytest.mark.usefixtures("well")
def test_nothing_is_said_when_all_is_well() -> None:
    assert findings(well=True) == {}


@pytest.mark.usefixtures("provider", "erp")
def test_a_sweep_that_never_ran_is_noticed() -> None:
    assert set(findings()) == {"sweep"}


@pytest.mark.usefixtures("well")
def test_counterparts_that_do_not_answer_are_noticed(settings: Settings) -> None:
    settings.STRIPE_API_BASE = settings.ERP_URL = NOBODY_LISTENS
    cached_erp.cache_clear()
    assert set(findings()) == {"payment provider", "ERP"}


@pytest.mark.usefixtures("well")
def test_a_key_that_the_provider_refuses_is_noticed(provider: SandboxProvider) -> None:
    provider.fault("unauthorized", match="/v1/refunds")
    assert findings()["payment provider"]["advice"] == "Check STRIPE_API_KEY."


@pytest.mark.usefixtures("well")
def test_a_live_key_outside_production_is_noticed(settings: Settings) -> None:
    settings.STRIPE_API_KEY = "sk_live_of_somebody"
    assert set(findings()) == {"payment provider's mode"}


@pytest.mark.usefixtures("well")
def test_a_missing_trigger_is_noticed() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE payments_approval DISABLE TRIGGER USER")
    assert "switched off" in findings()["triggers"]["found"]


@pytest.mark.usefixtures("well")
def test_a_provider_that_rests_is_noticed() -> None:
    until = timezone.now() + timedelta(minutes=5)
    ProviderHalt.objects.create(provider="stripe", reason="wrong key", until=until)
    assert set(findings()) == {"provider stripe"}


@pytest.mark.usefixtures("well")
def test_an_unknown_store_time_zone_is_noticed(settings: Settings) -> None:
    settings.STORE_TIME_ZONE = "Europe/Atlantis"
    assert "store time zone" in findings()
