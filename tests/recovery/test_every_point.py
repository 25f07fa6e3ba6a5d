"""Kill -9 at every place there is between two phases; then the same again, and the sweep.

What exactly each death leaves behind is told in test_crashes.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from config.fail_points import POINTS
from tests.recovery.conftest import WorkerProcess
from tests.recovery.journeys import (
    ANSWERED,
    JOURNEYS,
    LEASE_SECONDS,
    Request,
    Task,
    decided,
    refunded_once,
)
from tests.recovery.worker import request
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass

StartWorker = Callable[..., WorkerProcess]


def started(start_worker: StartWorker, step: Request | Task, point: str) -> WorkerProcess:
    """A process that has come to the point on its way through the step."""
    if isinstance(step, Request):
        worker = start_worker("request", *vars(step).values(), stop_at=point)
    else:
        worker = start_worker(step.verb, *step.arguments, stop_at=point)
    return worker.reaches(point)


def test_no_point_is_without_a_journey() -> None:
    assert list(JOURNEYS) == list(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_killed_there_the_refund_comes_out_once(
    point: str,
    start_worker: StartWorker,
    run_workers: Callable[..., None],
    provider: SandboxProvider,
    erp: SandboxErp,
) -> None:
    journey = JOURNEYS[point](provider)
    provider.know_payments()
    started(start_worker, journey.step, point).kill()
    let_pass(LEASE_SECONDS)
    if isinstance(journey.step, Request):
        assert request(**vars(journey.step)) in ANSWERED
    decided(journey.order)
    run_workers()
    assert refunded_once(journey.order, provider, erp) == []
