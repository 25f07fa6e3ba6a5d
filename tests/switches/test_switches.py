"""Each safety rule is protected by a test that goes red without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.switches.runs import NONE, all_runs
from tests.switches.switch import SWITCHES


@pytest.mark.timeout(600)
def test_with_each_switch_off_the_suite_goes_red(tell: Callable[[str], None]) -> None:
    runs = {run.off: run for run in all_runs()}
    for run in runs.values():
        tell(run.line())
    baseline = runs.pop(NONE)
    assert baseline.red == (), "with all rules on everything is green"
    assert set(runs) == set(SWITCHES)
    assert [run.off for run in runs.values() if not run.red] == []
