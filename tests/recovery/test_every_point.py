"""Kill -9 of a worker at every place there is between two phases; then the sweep.

The places inside a web request have their turn in test_killed_web.py. What exactly each death
leaves behind is told in test_crashes.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.fail_points import POINTS
from tests.recovery.conftest import WorkerProcess
from tests.recovery.journeys import (
    JOURNEYS,
    LEASE_SECONDS,
    WEB_POINTS,
    WORKER_POINTS,
    Task,
    refunded_once,
)
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass


def test_no_point_is_forgotten() -> None:
    assert list(JOURNEYS) == list(POINTS)
    assert sorted([*WEB_POINTS, *WORKER_POINTS]) == sorted(POINTS)


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_killed_there_the_refund_comes_out_once(
    point: str,
    start_worker: Callable[..., WorkerProcess],
    run_workers: Callable[..., None],
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    journey = JOURNEYS[point](provider)
    assert isinstance(journey.step, Task)
    worker = start_worker(journey.step.verb, *journey.step.arguments, stop_at=point)
    worker.reaches(point).kill()
    let_pass(LEASE_SECONDS)
    run_workers()
    assert refunded_once(journey.order, provider, erp) == []
