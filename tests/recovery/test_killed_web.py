"""Kill -9 of the web server inside a request: the client gets no answer and asks again.

gunicorn serves the product as it does in production, on the tests' database. The one that dies
does so by its own fail points; the same request then goes to a new server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.recovery.conftest import database_url
from tests.recovery.journeys import (
    ANSWERED,
    JOURNEYS,
    WEB_POINTS,
    Request,
    decided,
    refunded_once,
)
from tests.recovery.web import Web, environment, web_server
from tests.sandboxes import SandboxErp, SandboxProvider


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    """What is still running at the end is killed."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web") / "log"


@pytest.fixture(scope="module")
def new_server(django_db_setup: None, servers: ExitStack, log: Path) -> Callable[[], Web]:
    """The server that takes over; one for all, started for whoever needs it first."""
    running: list[Web] = []

    def start() -> Web:
        if not running:
            running.append(servers.enter_context(web_server(log, environment(database_url()))))
        return running[0]

    return start


@pytest.mark.parametrize("point", WEB_POINTS)
def test_killed_inside_a_request_the_same_request_again_ends_right(
    point: str,
    new_server: Callable[[], Web],
    run_workers: Callable[..., None],
    provider: SandboxProvider,
    erp: SandboxErp,
    tmp_path: Path,
) -> None:
    journey = JOURNEYS[point](provider)
    provider.know_payments()
    request = journey.step
    assert isinstance(request, Request)

    hits = tmp_path / "hits"
    armed = environment(database_url(), FAIL_POINTS=f"{point}=kill", FAIL_LOG=str(hits))
    with web_server(tmp_path / "log", armed) as dying, pytest.raises(httpx.TransportError):
        dying.send(request)
    assert [json.loads(line)["point"] for line in hits.read_text().splitlines()] == [point]

    web = new_server()
    assert web.send(request) in ANSWERED
    assert web.send(request) in ANSWERED, "and once more, by a client that is not sure"
    decided(journey.order)
    run_workers()
    assert refunded_once(journey.order, provider, erp) == []
