"""What the product refuses to start with: `manage.py check` says so before any process runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.checks import run_checks
from pytest_django import Settings

from config import checks
from config.database_url import RULE, DatabaseAddress, NoDatabase
from config.ports import any_free
from config.running_demo import NOT_JOINED

ROOT = Path(__file__).resolve().parent.parent


def codes() -> list[str]:
    """The project's own complaints about the settings as they are."""
    return [str(found.id) for found in run_checks() if str(found.id).startswith("refunds.")]


def test_the_settings_as_shipped_are_accepted() -> None:
    assert codes() == []


@pytest.mark.parametrize(("timeout", "retry"), [(120, 120), (120, 119), (120, 1)])
def test_a_queue_that_repeats_a_message_before_its_work_can_end_is_refused(
    settings: Settings, timeout: int, retry: int
) -> None:
    """RC-02: a message delivered again while its first delivery still runs."""
    settings.Q_CLUSTER = {**configured.Q_CLUSTER, "timeout": timeout, "retry": retry}
    assert set(codes()) == {"refunds.E001"}


def test_each_queues_own_numbers_are_looked_at(settings: Settings) -> None:
    books = {"workers": 1, "timeout": 600, "retry": 600}
    settings.Q_CLUSTER = {
        **configured.Q_CLUSTER,
        "ALT_CLUSTERS": {configured.MONEY_QUEUE: {}, configured.BOOKS_QUEUE: books},
    }
    (complaint,) = checks.queues_wait_longer_than_they_work(None)
    assert configured.BOOKS_QUEUE in complaint.msg


def test_a_queue_inherits_what_it_does_not_say(settings: Settings) -> None:
    """A longer time-out on one queue alone overtakes the shared retry."""
    settings.Q_CLUSTER = {
        **configured.Q_CLUSTER,
        "ALT_CLUSTERS": {"slow": {"timeout": configured.Q_CLUSTER["retry"]}},
    }
    assert codes() == ["refunds.E001"]


def test_a_lease_that_ends_before_its_call_is_refused(settings: Settings) -> None:
    settings.OUTBOUND_TIMING = {"lease_seconds": 15, "call_seconds": 12, "margin_seconds": 3}
    assert codes() == ["refunds.E002"]


def test_production_refuses_to_pay_by_a_sandbox(settings: Settings) -> None:
    settings.PRODUCTION = True
    settings.STRIPE_API_BASE = "http://127.0.0.1:8001"
    settings.ERP_URL = "https://erp.example"
    assert codes() == ["refunds.E003"]
    settings.STRIPE_API_BASE = "https://api.stripe.com"
    assert codes() == []


def test_production_refuses_to_fail_on_purpose(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL_POINTS", "before-call=kill")
    assert codes() == [], "outside of production that is what it is for"
    settings.PRODUCTION = True
    settings.STRIPE_API_BASE, settings.ERP_URL = "https://api.stripe.com", "https://erp.example"
    assert codes() == ["refunds.E005"]


# Before the settings are there.


def started(data_dir: Path, *command: str, **environment: str) -> tuple[int, list[str]]:
    """Exit code and complaint of a program that has only this environment."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**kept, "DATA_DIR": str(data_dir), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr.splitlines()


def ports() -> dict[str, str]:
    """Ports for a demo, as its environment names them."""
    return {name: str(any_free()) for name in ("PORT", "PROVIDER_PORT", "ERP_PORT")}


def test_a_command_without_a_running_demo_says_what_is_missing(tmp_path: Path) -> None:
    assert started(tmp_path, "manage.py", "check") == (
        1,
        ["Set SECRET_KEY in the environment.", NOT_JOINED],
    )


def test_a_misspelt_environment_does_not_run_on_stand_ins_for_secrets(tmp_path: Path) -> None:
    code, (complaint,) = started(tmp_path, "manage.py", "check", DJANGO_ENV="Production")
    assert (code, "DJANGO_ENV must be one of" in complaint) == (1, True)


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://127.0.0.1/refunds",
        "postgresql://127.0.0.1",
        "postgresql://127.0.0.1/",
        "postgresql://127.0.0.1/a/b",
        "postgresql://127.0.0.1:port/refunds",
        "postgresql://[::1/refunds",
    ],
)
def test_what_is_no_address_of_a_database_is_refused(url: str) -> None:
    with pytest.raises(NoDatabase):
        DatabaseAddress.read(url)


def test_an_address_is_read_with_its_escapes() -> None:
    assert DatabaseAddress.read("postgres://me:p%40ss@[::1]:5433/my%20refunds") == DatabaseAddress(
        host="::1", port=5433, name="my refunds", user="me", password="p@ss"
    )
    assert DatabaseAddress.read("postgresql:///refunds").host == ""


@pytest.mark.parametrize("program", [("manage.py", "check"), ("-m", "config.demo")])
def test_a_database_that_has_no_address_is_a_sentence(
    tmp_path: Path, program: tuple[str, ...]
) -> None:
    environment = {"DJANGO_ENV": "test", "DATABASE_URL": "nonsense", **ports()}
    assert started(tmp_path, *program, **environment) == (1, [RULE])


def test_the_demo_says_that_a_given_database_does_not_answer(tmp_path: Path) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/refunds"
    code, (complaint,) = started(tmp_path, "-m", "config.demo", DATABASE_URL=url, **ports())
    assert code == 1
    assert "DATABASE_URL" in complaint
    assert "secret" not in complaint
