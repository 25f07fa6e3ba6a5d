"""The soak's own parts: what it draws, what it notices, and that a wrong end has an exit code.

The soak itself needs a running demo: see `tests/test_demo_start.py`.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import psycopg
import pytest
from django.core.management import call_command

from config import fail_points
from payments.sandbox.faults import TRANSPORT_MODES
from payments.sandbox.provider import Provider
from reconciliation.drills import armed_workers, mixture
from reconciliation.drills.balance_sheet import RETURNED, Due, Evidence, Standing, weigh
from reconciliation.drills.chaos import DATABASE_KILL, DATABASE_RESTART, Chaos
from reconciliation.drills.crowd import Call, Crowd
from reconciliation.drills.insistence import Insistence
from reconciliation.drills.place import Demo, DrillError
from reconciliation.drills.report import Check, Figure
from reconciliation.drills.scenario import Ending, Story, Target, draw
from reconciliation.drills.window import Window
from reconciliation.sandbox.erp import Erp
from tests.sandboxes import SandboxProvider

KEY, BACK = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
REFUND = {
    "operation_key": KEY,
    "payment": "pi_1",
    "amount": 4_990,
    "currency": "eur",
    "status": "succeeded",
}
CREDIT = {"reference": KEY, "amount": "49.90", "currency": "EUR", "state": "posted"}
FINE = Evidence(
    due=[Due(KEY, "pi_1", 4_990, "EUR"), Due(BACK, "pi_2", 100, "EUR", came_back=True)],
    captured={"pi_1": 4_990, "pi_2": 100},
    refunds=[
        REFUND,
        {**REFUND, "operation_key": BACK, "payment": "pi_2", "amount": 100, "status": "failed"},
    ],
    entries=[CREDIT, {**CREDIT, "reference": BACK, "amount": "1.00"}],
    standing={KEY: Standing("posted"), BACK: Standing("approved", (RETURNED,))},
    balances={"pi_1": (0, 4_990), "pi_2": (0, 0)},
)


def wrong(**facts: Any) -> dict[str, int]:
    """What the verdict finds fault with when these facts are otherwise than they should be."""
    checks = weigh(replace(FINE, **facts))
    return {check.name: check.found for check in checks if not check.ok}


class TestTheVerdict:
    def test_it_is_silent_when_all_is_right(self) -> None:
        assert wrong() == {}

    def test_it_notices_a_duplicate_and_an_over_refund(self) -> None:
        found = wrong(refunds=[*FINE.refunds, REFUND])
        assert found["duplicates: returns with more than one refund"] == 1
        assert found["over-refunds: payments given back beyond"] == 1
        assert found["balances that differ from the provider's books"] == 1

    def test_it_notices_a_lost_refund(self) -> None:
        found = wrong(refunds=FINE.refunds[1:])
        assert found["lost: agreed returns without a refund"] == 1

    def test_it_notices_a_credit_that_is_missing_double_or_only_a_draft(self) -> None:
        assert wrong(entries=FINE.entries[1:]) == {"lost: refunds without a credit": 1}
        double = wrong(entries=[*FINE.entries, CREDIT])
        assert double == {"duplicates: returns with more than one credit": 1}
        draft = wrong(entries=[*FINE.entries, {**CREDIT, "state": "draft"}])
        assert draft == {"credits that are wrong or nobody's": 1}

    @pytest.mark.parametrize(
        "facts",
        [{"amount": 4_989}, {"currency": "usd"}, {"payment": "pi_2"}, {"status": "pending"}],
    )
    def test_it_notices_a_refund_of_something_else(self, facts: dict[str, Any]) -> None:
        found = wrong(refunds=[{**REFUND, **facts}, FINE.refunds[1]])
        assert found["refunds that are wrong or nobody's"] == 1

    def test_it_notices_money_for_nobody(self) -> None:
        stranger = {**REFUND, "operation_key": None, "payment": "pi_2", "amount": 1}
        found = wrong(refunds=[*FINE.refunds, stranger])
        assert found["refunds that are wrong or nobody's"] == 1

    def test_it_notices_what_is_not_at_its_end(self) -> None:
        standing = {**FINE.standing, KEY: Standing("reserved"), "other": Standing("inspected")}
        assert wrong(standing=standing) == {"unresolved: returns that are not at their end": 2}

    def test_it_notices_what_is_set_aside(self) -> None:
        standing = {**FINE.standing, KEY: Standing("posted", stuck=1)}
        assert wrong(standing=standing) == {"stuck: payments and credits set aside": 1}

    @pytest.mark.parametrize("items", [{KEY: ("stuck_payment",)}, {BACK: ()}])
    def test_it_notices_items_that_are_missing_or_too_many(
        self, items: dict[str, tuple[str, ...]]
    ) -> None:
        changed = {
            key: replace(FINE.standing[key], open_items=kinds) for key, kinds in items.items()
        }
        found = wrong(standing={**FINE.standing, **changed})
        assert found == {"items of finance missing, or beyond those due": 1}

    def test_it_notices_what_stays_reserved(self) -> None:
        found = wrong(balances={**FINE.balances, "pi_2": (100, 0)})
        assert found == {"balances that differ from the provider's books": 1}


class TestTheLot:
    def drawn(self, seed: int, number: int = 2_000) -> list[Any]:
        lot = Random(seed)  # noqa: S311
        return [draw(lot, index, 30) for index in range(number)]

    def test_the_same_seed_draws_the_same(self) -> None:
        assert self.drawn(5) == self.drawn(5)
        assert self.drawn(5) != self.drawn(6)

    def test_every_story_ending_and_mode_of_the_sandboxes_comes_up(self) -> None:
        scenarios = self.drawn(5)
        assert {scenario.story for scenario in scenarios} == set(Story)
        assert {scenario.ending for scenario in scenarios} == set(Ending)
        at_the_provider = {Target.REFUND, Target.REFUND_LOOK_UP}
        faults = [fault for scenario in scenarios for fault in scenario.faults]
        modes = {fault.mode for fault in faults if fault.target in at_the_provider}
        assert TRANSPORT_MODES | {"decline", "pending"} <= modes <= Provider.fault_modes
        modes = {fault.mode for fault in faults if fault.target not in at_the_provider}
        assert modes == Erp.fault_modes

    def test_no_request_travels_as_long_as_it_could(self) -> None:
        late = [f.seconds for s in self.drawn(5) for f in s.faults if f.mode == "late"]
        assert min(late) > 0
        assert max(late) < 30


def test_the_extra_workers_fail_points_exist_and_can_be_read() -> None:
    assert set(armed_workers.POINTS) - fail_points.POINTS.keys() == set()
    acts = [fail_points._read(rule) for rule in armed_workers._rules(0.02, 34.0).split(",")]
    assert {act.point for act in acts} == set(armed_workers.POINTS)


def test_a_database_that_is_not_the_demos_own_is_left_alone(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "", "", "", "postgresql://elsewhere/refunds", {})
    lot = Random(1)  # noqa: S311
    chaos = Chaos(demo, mock.Mock(), mock.Mock(), lot, 20)
    assert not chaos.owns_database
    deeds = {name for name, _ in chaos._deck}
    assert "money killed" in deeds
    assert deeds & {DATABASE_RESTART, DATABASE_KILL} == set()


def test_a_request_without_an_answer_is_sent_again(
    provider_process: SandboxProvider, provider: SandboxProvider
) -> None:
    calls = [Call("GET", f"/v1/refunds/re_{n}", "t") for n in range(3)]
    with Crowd(provider_process.url, 2) as crowd:
        provider.fault("drop_before", match="/v1/refunds/re_1", times=2)
        ask = Insistence(crowd)
        answers = ask.spread(calls)
    assert [answer.status for answer in answers] == [404] * 3
    assert ask.repeated == 2


def test_an_onlooker_waits_for_a_database_that_is_away() -> None:
    refusal = psycopg.OperationalError("the database system is starting up")
    connection = mock.Mock()
    connection.execute.return_value.fetchall.return_value = [(1,)]
    with mock.patch.object(psycopg, "connect", side_effect=[refusal, connection]):
        assert Window("postgresql://nowhere").rows("SELECT 1") == [(1,)]


def test_an_onlooker_gives_up_one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciliation.drills.window.PATIENCE_SECONDS", 0)
    with pytest.raises(DrillError, match="does not answer"):
        Window("postgresql://127.0.0.1:1/nothing").rows("SELECT 1")


@pytest.mark.parametrize("found", [0, 1])
def test_a_soak_that_ends_wrong_has_exit_code_1(found: int, tmp_path: Path) -> None:
    checks = (Check("duplicates", 0, found),)
    demo = Demo(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:1", "http://127.0.0.1:1", "", {})
    said = StringIO()
    with (
        mock.patch.object(Demo, "running_in", return_value=demo),
        mock.patch("reconciliation.management.commands.drill.Crowd"),
        mock.patch.object(mixture, "run", return_value=(checks, (Figure("refunds made", 7),))),
    ):
        ends: AbstractContextManager[Any] = (
            pytest.raises(SystemExit, match="1") if found else nullcontext()
        )
        with ends:
            call_command("drill", "all", "--seed=3", "--json", stdout=said, stderr=StringIO())
    report = json.loads(said.getvalue())
    assert report["ok"] is (found == 0)
    assert report["seed"] == 3
    assert report["figures"] == [{"name": "refunds made", "value": 7}]
