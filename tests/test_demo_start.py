"""`python -m config.demo`, end to end: what it opens, what it keeps, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from config.embedded import stop_server
from config.ports import HOST, any_free
from config.processes import MARK, kill_marked

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 120
STOP_SECONDS = 60
DRILLS = (
    *("duplicate-messages", "two-agents", "partial-refunds"),
    *("dropped-connection", "killed-worker"),
)
BRISK = {
    "OUTBOUND_LEASE_SECONDS": "9",
    "OUTBOUND_CALL_SECONDS": "5",
    "STRIPE_MAX_UNDER_WAY_SECONDS": "8",
    "ERP_MAX_UNDER_WAY_SECONDS": "8",
}

# Two demos at once would be slow, not wrong.
pytestmark = pytest.mark.xdist_group("demo")


@dataclass
class Demo:
    """A demo on a data directory and ports of its own."""

    data_dir: Path
    ports: dict[str, int]
    times: Mapping[str, str]

    def start(self) -> None:
        environment = {**os.environ, "DATA_DIR": str(self.data_dir)}
        environment |= {name: str(port) for name, port in self.ports.items()} | dict(self.times)
        # It is to start a PostgreSQL of its own.
        environment.pop("DATABASE_URL", None)
        with self._output.open("a") as output:
            self.supervisor = subprocess.Popen(
                [sys.executable, "-m", "config.demo"],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _wait(lambda: self.supervisor.poll() is not None or self.ready_file.exists(), READY_SECONDS)
        assert self.supervisor.poll() is None, self._output.read_text()
        assert self.ready_file.exists(), self._output.read_text()

    def stop(self) -> int:
        self.supervisor.send_signal(signal.SIGTERM)
        return self.supervisor.wait(timeout=STOP_SECONDS)

    @property
    def ready_file(self) -> Path:
        return self.data_dir / "demo.json"

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.ready_file.read_text())
        return facts

    def pids(self) -> dict[str, int]:
        pids: dict[str, int] = json.loads((self.data_dir / "processes.json").read_text())
        return pids

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this data directory, PostgreSQL too."""
        return [process for process in psutil.process_iter() if self._belongs(process)]

    def count_orders(self) -> int:
        with psycopg.connect(self.facts["database_url"]) as connection:
            row = connection.execute("SELECT count(*) FROM returns_order").fetchone()
        assert row is not None
        return int(row[0])

    def postmaster(self) -> psutil.Process:
        """PostgreSQL's first process, the parent of its others."""
        servers = [p for p in self.processes() if p.name() == "postgres"]
        (first,) = [p for p in servers if p.ppid() not in {q.pid for q in servers}]
        return first

    def clear(self) -> None:
        """End whatever a failed test has left."""
        if self.supervisor.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.stop()
        self.supervisor.kill()
        kill_marked(self.data_dir)
        stop_server(self.data_dir)

    @property
    def _output(self) -> Path:
        return self.data_dir / "output.log"

    def _belongs(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.environ().get(MARK) == str(self.data_dir):
                return True
            return process.name() == "postgres" and process.cwd().startswith(str(self.data_dir))
        return False


@pytest.fixture
def demo() -> Iterator[Demo]:
    with _running() as demo:
        yield demo


@pytest.fixture(scope="module")
def brisk_demo() -> Iterator[Demo]:
    """One for all drills; its leases end soon, so that what they guard is seen soon."""
    with _running(BRISK) as demo:
        yield demo


@contextmanager
def _running(times: Mapping[str, str] = MappingProxyType({})) -> Iterator[Demo]:
    # Not tmp_path: PostgreSQL's account cannot reach what belongs to root alone.
    with tempfile.TemporaryDirectory(prefix="refund-desk-test-") as directory:
        ports = {name: any_free() for name in ("PORT", "PROVIDER_PORT", "ERP_PORT")}
        demo = Demo(Path(directory).resolve(), ports, times)
        demo.start()
        try:
            yield demo
        finally:
            demo.clear()


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    """Return once a condition holds, or when the time is up: the caller asserts."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)


def _status(url: str) -> int:
    """What an address answers with; 0 without an answer."""
    with suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).status_code
    return 0


def _beats(demo: Demo) -> dict[str, datetime]:
    """When each loop of the sweep was last alive."""
    with psycopg.connect(demo.facts["database_url"]) as connection:
        return dict(connection.execute("SELECT name, at FROM payments_heartbeat").fetchall())


def _listening(process: psutil.Process) -> set[tuple[str, int]]:
    """The addresses a process accepts connections or datagrams on."""
    with suppress(psutil.NoSuchProcess):
        return {
            (connection.laddr.ip, connection.laddr.port)
            for connection in process.net_connections(kind="inet")
            if connection.status in {psutil.CONN_LISTEN, psutil.CONN_NONE} and connection.laddr
        }
    return set()


def test_demo_is_ready_listens_on_loopback_only_and_leaves_no_process_behind(demo: Demo) -> None:
    facts = demo.facts
    assert set(facts) == {"web", "provider", "erp", "database_url", "users", "tokens"}
    assert set(facts["users"]) == {"desk", "manager", "manager2", "finance", "admin"}
    assert set(facts["tokens"]) == {"integration", "online", "manager", "manager2", "finance"}
    assert demo.ready_file.stat().st_mode & 0o077 == 0
    assert httpx.get(f"{facts['web']}/readyz", trust_env=False).status_code == 200
    assert set(demo.pids()) == {"provider", "erp", "web", "money", "books", "sweep"}

    processes = demo.processes()
    addresses = {address for process in processes for address in _listening(process)}
    assert {host for host, _ in addresses} == {HOST}
    assert set(demo.ports.values()) <= {port for _, port in addresses}

    assert demo.stop() == 0
    assert [process for process in processes if process.is_running()] == []
    assert demo.processes() == []
    assert not demo.ready_file.exists()


def test_demo_that_was_killed_starts_again_with_its_data(demo: Demo) -> None:
    orders, users, old_pids = demo.count_orders(), demo.facts["users"], demo.pids()
    assert orders >= 60
    demo.supervisor.kill()
    demo.supervisor.wait()
    demo.ready_file.unlink()

    demo.start()

    assert demo.count_orders() == orders
    assert demo.facts["users"] == users
    assert set(demo.pids().values()).isdisjoint(old_pids.values())
    assert [pid for pid in old_pids.values() if psutil.pid_exists(pid)] == []


def test_process_that_dies_is_started_again(demo: Demo) -> None:
    old_pid = demo.pids()["money"]
    old_workers = psutil.Process(old_pid).children(recursive=True)
    os.kill(old_pid, signal.SIGKILL)

    _wait(lambda: demo.pids()["money"] != old_pid, READY_SECONDS)

    assert psutil.pid_exists(demo.pids()["money"])
    _wait(lambda: not any(worker.is_running() for worker in old_workers), STOP_SECONDS)
    assert [worker for worker in old_workers if worker.is_running()] == []


def test_database_that_is_killed_is_started_again_and_everyone_finds_it(demo: Demo) -> None:
    """Web, queues and sweep are the same processes before and after."""
    orders, pids = demo.count_orders(), demo.pids()
    postmaster = demo.postmaster()
    postmaster.kill()
    postmaster.wait()

    _wait(lambda: _status(f"{demo.facts['web']}/readyz") == 200, READY_SECONDS)

    assert demo.count_orders() == orders
    before = _beats(demo)
    _wait(lambda: all(_beats(demo)[loop] > at for loop, at in before.items()), READY_SECONDS)
    assert all(_beats(demo)[loop] > at for loop, at in before.items())
    assert demo.pids() == pids


def test_second_demo_on_the_same_data_is_refused(demo: Demo) -> None:
    environment = {**os.environ, "DATA_DIR": str(demo.data_dir)}
    second = subprocess.run(
        [sys.executable, "-m", "config.demo"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert "already" in second.stderr
    assert demo.supervisor.poll() is None


@pytest.mark.timeout(600)
def test_every_single_drill_ends_well(brisk_demo: Demo) -> None:
    """Real processes, real connections, a real kill -9; judged by the sandboxes' own books."""
    for name in DRILLS:
        ended = _drill(brisk_demo, name, "--orders", "4")
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        assert "HTTP 5xx or no answer" in ended.stdout
    assert _states_of_drills(brisk_demo.facts) == {"posted", "cancelled"}


@pytest.mark.timeout(600)
def test_a_small_soak_ends_well(brisk_demo: Demo) -> None:
    """Everything at once; `drill all --orders 2000 --workers 4` is the same for longer."""
    ended = _drill(brisk_demo, "all", "--orders=30", "--workers=4", "--seed=1", "--json")
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    report = json.loads(ended.stdout)
    figures = {figure["name"].strip(): figure["value"] for figure in report["figures"]}
    assert report["seed"] == 1
    assert figures["refunds made"] >= 30
    for deed in ("database restarted at once", "database killed", "money killed", "sweep killed"):
        assert figures[deed] >= 2, figures
    assert figures["faults that hit at the provider"] > 10


def _drill(demo: Demo, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "drill", *arguments],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(demo.data_dir), "DJANGO_ENV": "demo"},
        capture_output=True,
        text=True,
        check=False,
    )


def _states_of_drills(facts: dict[str, Any]) -> set[str]:
    """Where the returns of the drills' orders have come to."""
    with psycopg.connect(facts["database_url"]) as connection:
        rows = connection.execute(
            "SELECT DISTINCT r.state FROM returns_refundoperation r"
            " JOIN returns_order o ON o.id = r.order_id WHERE o.number LIKE 'DRILL-%'"
        ).fetchall()
    return {state for (state,) in rows}
