"""The database stops at once, with a worker at every place between two phases, and comes back.

A PostgreSQL cluster of the test's own, with durable settings. Web server, queues and sweep are real
processes that live through it; after the restart the clients send their requests again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ, Success

from config.database_url import DatabaseAddress
from config.embedded import ensure_server, stop_server
from config.fail_points import POINTS
from payments.models import Heartbeat
from returns.models import Order
from returns.states import OperationState
from tests import factories
from tests.oracle import assert_oracle
from tests.recovery.conftest import WorkerProcess, open_door, wait_until, worker_behind
from tests.recovery.journeys import (
    ANSWERED,
    JOURNEYS,
    Journey,
    Request,
    asking,
    decided,
    refunded_once,
)
from tests.recovery.web import Web, environment, program_group, web_server
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.workers import let_pass


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not tmp_path: PostgreSQL's account cannot reach what belongs to root alone.
    with tempfile.TemporaryDirectory(prefix="refund-desk-test-") as directory:
        yield Path(directory)
        stop_server(Path(directory), mode="immediate")


@contextmanager
def working_on(url: str) -> Iterator[None]:
    """This process works on another database, until the end."""
    facts: dict[str, Any] = connection.settings_dict
    usual, other = dict(facts), DatabaseAddress.read(url)
    connection.close()
    facts.update(
        {"HOST": other.host, "PORT": other.port, "NAME": other.name},
        USER=other.user,
        PASSWORD=other.password,
    )
    try:
        yield
    finally:
        connection.close()
        facts.update(usual)


class Product:
    """Every process of the product, on one database."""

    def __init__(self, stack: ExitStack, url: str, log_dir: Path) -> None:
        self._logs = log_dir
        self.web: Web = stack.enter_context(web_server(log_dir / "web", environment(url)))
        start = stack.enter_context
        self._background: list[subprocess.Popen[bytes]] = [
            start(program_group(log_dir / name, environment(url, **more), "manage.py", *command))
            for name, more, command in (
                ("money", {"Q_CLUSTER_NAME": "money", "QUEUE_WORKERS": "1"}, ["qcluster"]),
                ("books", {"Q_CLUSTER_NAME": "books"}, ["qcluster"]),
                ("sweep", {}, ["sweep", "--every", "0.5", "--threads", "2"]),
            )
        ]

    def signal(self, number: signal.Signals) -> None:
        """To the queues and the sweep, with all their children."""
        for process in self._background:
            os.killpg(process.pid, number)

    def is_alive(self) -> bool:
        return all(process.poll() is None for process in self._background)

    def has_noticed(self) -> bool:
        """Whether queues and sweep have met a database that is not there."""
        logs = [(self._logs / name).read_text() for name in ("money", "books", "sweep")]
        return all("connection" in log and "Traceback" in log for log in logs)


def worked_off() -> set[str]:
    """Which kinds of queue messages have been worked off."""
    return set(Success.objects.values_list("func", flat=True))


def is_up() -> bool:
    """Both queues have done something, and both halves of the sweep are alive."""
    return len(worked_off()) == 2 and Heartbeat.objects.count() == 2


def no_message_waits() -> bool:
    """What is left in the queues is with a worker, or its worker died: it comes again later."""
    return not OrmQ.objects.filter(lock__lte=timezone.now()).exists()


def stopped_at_every_point(door: Path, journeys: dict[str, Journey]) -> list[WorkerProcess]:
    """One worker each, in the middle of its journey."""
    workers = []
    for point, journey in journeys.items():
        step = journey.step
        if isinstance(step, Request):
            worker = worker_behind(door, "request", *vars(step).values(), stop_at=point)
        else:
            worker = worker_behind(door, step.verb, *step.arguments, stop_at=point)
        workers.append(worker.reaches(point))
    return workers


def prepared(provider: SandboxProvider) -> dict[str, Journey]:
    """A journey to every point. The ones for which time has to pass come first."""
    points = sorted(POINTS, key=lambda point: JOURNEYS[point] is not asking)
    journeys = {point: JOURNEYS[point](provider) for point in points}
    provider.know_payments()
    return journeys


def all_posted(journeys: dict[str, Journey]) -> bool:
    """Time passes, leases end, and nobody but the product itself works on it."""
    let_pass(5)
    numbers = [journey.order for journey in journeys.values()]
    posted = Order.objects.filter(number__in=numbers, operations__state=OperationState.POSTED)
    return posted.count() == len(numbers)


def asked_again_and_decided(
    journeys: dict[str, Journey], web: Web, provider: SandboxProvider
) -> None:
    """The clients send their requests again, and people decide what is left to decide."""
    for point, journey in journeys.items():
        if isinstance(journey.step, Request):
            assert web.send(journey.step) in ANSWERED, point
    provider.know_payments()
    for journey in journeys.values():
        decided(journey.order)


def test_the_database_stops_at_once_while_a_worker_is_at_every_point(
    transactional_db: None,
    provider: SandboxProvider,
    erp: SandboxErp,
    data_dir: Path,
    tmp_path: Path,
) -> None:
    url = ensure_server(data_dir, durable=True)
    with ExitStack() as stack:
        stack.enter_context(working_on(url))
        call_command("migrate", verbosity=0)
        product = Product(stack, url, tmp_path)
        door = stack.enter_context(open_door(tmp_path / "door", url))
        before = factories.reserved()
        provider.know_payments()
        wait_until(is_up)

        product.signal(signal.SIGSTOP)  # so that nobody else does what the workers are to do
        journeys = prepared(provider)
        workers = stopped_at_every_point(door, journeys)
        stop_server(data_dir, mode="immediate")
        product.signal(signal.SIGCONT)
        ended = [worker.go_on().ended() for worker in workers]
        assert sum(facts.get("result") in ANSWERED for facts in ended) <= 1, "only what was over"
        wait_until(product.has_noticed)

        assert ensure_server(data_dir, durable=True) == url
        connection.close()
        asked_again_and_decided(journeys, product.web, provider)
        wait_until(lambda: all_posted(journeys))
        wait_until(no_message_waits)
        assert product.is_alive()
        numbers = [before.order.number, *(journey.order for journey in journeys.values())]
        assert [refunded_once(number, provider, erp) for number in numbers] == [[]] * len(numbers)
        assert_oracle(provider, erp)
        # What comes after this test looks at another database.
        provider.reset()
        erp.reset()
