"""Real worker processes that stop where a test wants them and die when it says so."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from django.conf import settings
from django.db import connection

from payments.sandbox.process import PROJECT_ROOT
from tests.sandboxes import SandboxErp, SandboxProvider

# Whatever takes longer hangs; the machine may be busy with other things.
PATIENCE_SECONDS = 60


class WorkerProcess:
    """A process that works for us, seen from the test."""

    def __init__(self, door: Path, order: dict[str, Any]) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(PATIENCE_SECONDS)
        self._connection.connect(str(door))
        self._lines = self._connection.makefile("rw")
        self._process = psutil.Process(self._heard("pid"))
        self._tell(json.dumps(order))

    def reaches(self, point: str) -> WorkerProcess:
        """Returns when it has stopped there; fails when it ends or stops elsewhere."""
        assert self._heard("reached") == point
        return self

    def is_frozen(self) -> WorkerProcess:
        """Returns when the kernel has stopped it."""
        wait_until(lambda: self._process.status() == psutil.STATUS_STOPPED)
        return self

    def go_on(self) -> WorkerProcess:
        self._tell("go")
        return self

    def thaw(self) -> WorkerProcess:
        self._process.resume()
        return self

    def result(self) -> Any:
        """What the verb returned."""
        return self._heard("result")

    def ended(self) -> dict[str, Any]:
        """What the verb returned as `result`, or what it raised as `error`."""
        facts: dict[str, Any] = json.loads(self._lines.readline())
        return facts

    def kill(self) -> None:
        """SIGKILL: no clean-up, no farewell; returns when it is dead."""
        self._process.kill()
        while self._lines.readline():
            pass

    def clear_away(self) -> None:
        """Leave nothing behind, whatever has become of it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process.kill()
        self._lines.close()
        self._connection.close()

    def _tell(self, line: str) -> None:
        self._lines.write(line + "\n")
        self._lines.flush()

    def _heard(self, name: str) -> Any:
        line = self._lines.readline()
        assert line, f"the worker died and did not say “{name}”"
        facts = json.loads(line)
        assert name in facts, facts
        return facts[name]


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@contextlib.contextmanager
def open_door(path: Path, url: str) -> Iterator[Path]:
    """Where workers are to be had that work on a database; none of them outlives it for long."""
    stem = subprocess.Popen(
        [sys.executable, "-m", "tests.recovery.worker", str(path)],
        cwd=PROJECT_ROOT,
        env={
            **os.environ,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "config.settings",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert stem.stdout is not None
    assert stem.stdout.readline() == "ready\n"
    yield path
    stem.kill()
    with stem:
        stem.wait()


@pytest.fixture(scope="session")
def door(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where workers are to be had; they work on the tests' own database."""
    with open_door(tmp_path_factory.mktemp("workers") / "door", database_url()) as path:
        yield path


def worker_behind(
    door: Path,
    verb: str,
    *arguments: object,
    stop_at: str = "",
    time: int = 1,
    freezes: bool = False,
    checks_its_lease: bool = True,
    **overrides: object,
) -> WorkerProcess:
    """Start a worker on a verb; `stop_at` names a point of config/fail_points.py.

    It stops when it comes by there for the nth `time`.
    """
    names = ("STRIPE_API_BASE", "STRIPE_WEBHOOK_SECRET", "ERP_URL")
    order = {
        "verb": verb,
        "arguments": arguments,
        "stop_at": stop_at,
        "time": time,
        "freezes": freezes,
        "checks_its_lease": checks_its_lease,
        "settings": {name: getattr(settings, name) for name in names} | overrides,
    }
    return WorkerProcess(door, order)


@pytest.fixture
def start_worker(
    door: Path, transactional_db: None, provider: SandboxProvider, erp: SandboxErp
) -> Iterator[Callable[..., WorkerProcess]]:
    """Start a worker on a verb, as `worker_behind` does; it is cleared away after the test."""
    started: list[WorkerProcess] = []

    def start(verb: str, *arguments: object, **options: Any) -> WorkerProcess:
        started.append(worker_behind(door, verb, *arguments, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.clear_away()


def database_url() -> str:
    """The address of the tests' own database."""
    facts = connection.settings_dict
    who = f"{quote(facts['USER'])}:{quote(facts['PASSWORD'])}"
    place = f"{facts['HOST']}:{facts['PORT']}" if facts["PORT"] else facts["HOST"]
    return f"postgresql://{who}@{place}/{quote(facts['NAME'])}"
