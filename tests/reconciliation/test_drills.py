"""The drills' own parts: a crowd that calls at once, a verdict that notices, a clear refusal.

The drills themselves need a running demo; each is carried out with `manage.py drill`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path

import httpx
import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from config.demo import _gunicorn
from reconciliation.drills.crowd import IDLE_SECONDS, Call, Crowd
from reconciliation.drills.own_processes import kill_own
from reconciliation.drills.place import Demo, DrillError
from reconciliation.drills.report import Check, Report
from reconciliation.drills.stage import Sale, Stage
from reconciliation.drills.verdict import books
from tests.sandboxes import SandboxErp, SandboxProvider

KEY = "11111111-1111-4111-8111-111111111111"
SALE = Sale("DRILL-1", "pi_drill_1", "KWD", "18.600")


@pytest.fixture(scope="module")
def crowd(provider_process: SandboxProvider) -> Iterator[Crowd]:
    """Three processes; a sandbox stands for the product, since any HTTP server will do."""
    with Crowd(provider_process.url, 3) as crowd:
        yield crowd


@pytest.fixture
def stage(crowd: Crowd, provider: SandboxProvider, erp: SandboxErp, tmp_path: Path) -> Stage:
    demo = Demo(tmp_path, provider.url, provider.url, erp.url, "", {})
    said: list[str] = []
    return Stage(demo, crowd, 1, said.append)


def refund(provider: SandboxProvider, key: str, amount: int = 18_600) -> None:
    """A refund that leaves the provider, whoever asked for it."""
    parameters = {
        "payment_intent": SALE.payment,
        "amount": amount,
        "metadata[operation_key]": KEY,
    }
    answer = httpx.post(
        f"{provider.url}/v1/refunds",
        data=parameters,
        headers={"Idempotency-Key": key, "Authorization": "Bearer sk_test_1"},
    )
    answer.raise_for_status()


def credit(erp: SandboxErp, *, posted: bool = True) -> None:
    entry = {
        "reference": KEY,
        "amount": "18.600",
        "currency": "KWD",
        "refunded_on": "2026-03-01",
        "order": SALE.number,
    }
    made = httpx.post(f"{erp.url}/entries", json=entry).raise_for_status().json()
    if posted:
        httpx.post(f"{erp.url}/entries/{made['id']}/post").raise_for_status()


def wrong(stage: Stage) -> dict[str, tuple[int, int]]:
    """The figures of the verdict that are not what they must be."""
    checks = books(stage, {KEY: SALE})
    return {check.name.strip(): (check.expected, check.found) for check in checks if not check.ok}


def test_answers_come_in_the_order_of_the_groups(crowd: Crowd, provider: SandboxProvider) -> None:
    groups = [[Call("GET", f"/v1/refunds/re_{n}{m}", "t") for m in "ab"] for n in range(25)]
    answers = crowd.together(groups)
    said = [[answer.body["error"]["message"] for answer in group] for group in answers]
    for n, group in enumerate(said):
        assert [f"re_{n}{m}" in words for m, words in zip("ab", group, strict=True)] == [True] * 2
    assert all(answer.status == 404 for group in answers for answer in group)
    seen = [request["path"] for request in provider.requests()]
    assert sorted(seen) == sorted(call.path for group in groups for call in group)


def test_spread_calls_are_all_made_and_answered_in_order(crowd: Crowd) -> None:
    calls = [Call("GET", f"/v1/refunds/re_{n}", "t") for n in range(100)]
    answers = crowd.spread(calls)
    for call, answer in zip(calls, answers, strict=True):
        assert call.path.rpartition("/")[2] in answer.body["error"]["message"]


def test_a_server_that_hangs_up_or_fails_is_counted(
    crowd: Crowd, provider: SandboxProvider
) -> None:
    before = crowd.server_errors
    for mode in ("drop_before", "error_before"):
        provider.fault(mode, match="/v1/refunds")
        crowd.spread([Call("GET", "/v1/refunds", "t")])
    assert crowd.server_errors == before + 2


def test_the_verdict_is_silent_when_all_is_right(
    stage: Stage, provider: SandboxProvider, erp: SandboxErp
) -> None:
    stage.crowd.statuses.clear()
    register(stage)
    refund(provider, "key-1")
    credit(erp)
    assert wrong(stage) == {}


def test_the_verdict_notices_a_second_refund(
    stage: Stage, provider: SandboxProvider, erp: SandboxErp
) -> None:
    stage.crowd.statuses.clear()
    register(stage)
    refund(provider, "key-1", 9_300)
    refund(provider, "key-2", 9_300)
    credit(erp)
    assert wrong(stage) == {
        "refunds in the provider's ledger": (1, 2),
        "succeeded, of the right amount and payment": (1, 0),
        "distinct keys": (1, 2),
    }


def test_the_verdict_notices_what_is_missing(
    stage: Stage, provider: SandboxProvider, erp: SandboxErp
) -> None:
    stage.crowd.statuses.clear()
    register(stage)
    credit(erp, posted=False)
    assert wrong(stage) == {
        "refunds in the provider's ledger": (1, 0),
        "succeeded, of the right amount and payment": (1, 0),
        "distinct keys": (1, 0),
        "distinct operations": (1, 0),
        "posted, of the right amount": (1, 0),
    }


def register(stage: Stage) -> None:
    payment = {"payment": SALE.payment, "amount": 18_600, "currency": SALE.currency}
    stage.provider.register_payments([payment])


def test_a_silent_provider_speaks_again_and_its_faults_are_gone(
    stage: Stage, provider: SandboxProvider
) -> None:
    with suppress(DrillError), stage.provider.silent():
        stage.provider.order_fault("drop_after", SALE.payment)
        assert stage.provider.faults_left({SALE.payment}) == 1
        raise DrillError("the drill broke off")
    assert provider.faults() == []


def test_no_process_is_killed_that_is_not_the_demos_own(tmp_path: Path) -> None:
    (tmp_path / "processes.json").write_text(json.dumps({"money": 1}))
    demo = Demo(tmp_path, "", "", "", "", {})
    assert not kill_own(demo, 999_999_999)


def test_a_report_is_right_when_every_figure_is() -> None:
    right, other = Check("refunds", 2, 2), Check("entries", 2, 3)
    assert Report("two-agents", 2, 4, 1.0, (right,)).ok
    report = Report("two-agents", 2, 4, 1.0, (right, other))
    assert not report.ok
    assert "WRONG" in report.table()
    assert [check["ok"] for check in report.facts()["checks"]] == [True, False]


def test_idle_connections_are_given_up_by_the_client_before_the_server() -> None:
    """The other way round, a request meets a connection that is just being closed."""
    (option,) = [option for option in _gunicorn(8000) if option.startswith("--keep-alive=")]
    assert int(option.partition("=")[2]) > 2 * IDLE_SECONDS


def test_without_a_demo_a_drill_says_what_to_do(tmp_path: Path, settings: Settings) -> None:
    settings.DATA_DIR = tmp_path
    with pytest.raises(CommandError, match="make demo"):
        call_command("drill", "two-agents", stdout=StringIO())
