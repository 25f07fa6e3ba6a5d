"""The named places where processes are made to die: they exist, they are armed only when asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from config import fail_points
from config.fail_points import POINTS, When, arm, arm_from_environment, owner_of
from payments.sandbox.process import PROJECT_ROOT

# Calls one function of the product that needs no database, and says that it came back.
CALLS_MAY_CALL = """
import django; django.setup()
from datetime import datetime
from payments import outbound
from payments.outcomes import Purpose
print(outbound.may_call(outbound.Claim(1, 1, Purpose.SEND, datetime.now(), float("inf"))))
"""


def function_at(point: str) -> Any:
    owner, name = owner_of(POINTS[point].place)
    return getattr(owner, name)


def calling(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own with this environment, as it ended."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT_ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_armed_in_place_and_disarmed_without_a_trace(point: str) -> None:
    before = function_at(point)
    assert before.__code__.co_filename != fail_points.__file__
    disarm = arm(point, lambda: None)
    assert function_at(point) is not before
    disarm()
    assert function_at(point) is before


@pytest.mark.parametrize("when", When)
def test_a_point_lies_on_its_side_of_the_function(
    monkeypatch: pytest.MonkeyPatch, when: When
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(fail_points, "nearby", lambda: seen.append("function"), raising=False)
    monkeypatch.setitem(POINTS, "here", fail_points.Point(when, "config.fail_points:nearby"))
    arm("here", lambda: seen.append("point"))
    fail_points.nearby()  # type: ignore[attr-defined]
    expected = ["point", "function"]
    assert seen == (expected if when is When.BEFORE else expected[::-1])


def test_nothing_is_armed_and_nothing_loaded_without_being_asked() -> None:
    program = "import django, sys; django.setup(); print('config.fail_points' in sys.modules)"
    assert calling(program, FAIL_POINTS="").stdout == "False\n"
    assert calling(program, FAIL_POINTS="before-call=kill@0").stdout == "True\n"


def test_an_armed_point_kills_and_is_counted(tmp_path: Path) -> None:
    log = tmp_path / "hits"
    ended = calling(CALLS_MAY_CALL, FAIL_POINTS="before-lease-check=kill", FAIL_LOG=str(log))
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "")
    hit = json.loads(log.read_text())
    assert (hit["point"], hit["action"]) == ("before-lease-check", "kill")
    assert json.loads(ended.stderr) == hit


def test_a_stall_takes_its_time_and_a_rule_without_luck_does_nothing(tmp_path: Path) -> None:
    rules = "before-lease-check=stall:0.01, claimed=kill@0, after-call=freeze@0.5"
    ended = calling(CALLS_MAY_CALL, FAIL_POINTS=rules)
    assert (ended.returncode, ended.stdout) == (0, "True\n")
    assert json.loads(ended.stderr)["action"] == "stall:0.01"


@pytest.mark.parametrize(
    "rules",
    [
        "nowhere=kill",
        "before-call",
        "before-call=explode",
        "before-call=stall",
        "before-call=kill:0.5",
        "before-call=kill@2",
        "before-call=kill@1.5",
        "before-call=kill,",
    ],
)
def test_rules_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch, rules: str) -> None:
    monkeypatch.setenv("FAIL_POINTS", rules)
    before = function_at("before-call")
    with pytest.raises(ImproperlyConfigured, match="FAIL_POINTS"):
        arm_from_environment()
    assert function_at("before-call") is before


def test_each_process_throws_its_own_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    def throws(seed: str, pid: int) -> list[float]:
        monkeypatch.setenv("FAIL_SEED", seed)
        monkeypatch.setattr(os, "getpid", lambda: pid)
        act = fail_points._Act("before-call", "kill", 0.0)
        return [act._throw() for _ in range(3)]

    assert throws("1", 1) == throws("1", 1)
    assert throws("1", 1) != throws("1", 2)
    assert throws("1", 1) != throws("2", 1)


def test_production_refuses_to_start_with_fail_points_and_arms_nothing() -> None:
    production = {
        "DJANGO_ENV": "production",
        "FAIL_POINTS": "before-lease-check=kill",
        **dict.fromkeys(("SECRET_KEY", "STRIPE_API_KEY", "STRIPE_WEBHOOK_SECRET"), "set"),
        "STRIPE_API_BASE": "https://api.stripe.com",
        "ERP_URL": "https://erp.example",
    }
    ended = calling(CALLS_MAY_CALL, **production)
    assert (ended.returncode, ended.stdout) == (0, "True\n")
    ended = calling("import config.wsgi", **production)
    assert ended.returncode == 1
    assert "refunds.E005" in ended.stderr
