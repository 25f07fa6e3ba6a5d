"""Extra workers of the soak that die, freeze or stall at the product's fail points.

They run what the demo's own workers run, `qcluster` and `sweep`, on the same database; what ends is
started again, and what has frozen itself is continued once its lease is over.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import cycle
from types import TracebackType

import psutil
from django.conf import settings

from reconciliation.drills.place import Demo

# Every point that a worker comes to; the demo's start refuses a name that does not exist.
POINTS = (
    *("before-claim", "claimed", "before-lease-check"),
    *("before-call", "after-call", "before-look-up", "after-look-up"),
    *("outcome-written", "money-moved", "payment-recorded"),
    *("postings-opened", "before-draft", "after-draft", "after-entry-look-up"),
    *("before-post", "after-post", "posting-recorded"),
)
FREEZING_POINTS = ("claimed", "before-lease-check", "before-call")
# A small run must meet a few deaths; a long one meets enough, and a death costs a start.
DEATHS_WANTED = 4
LEAST_CHANCE, MOST_CHANCE = 0.003, 0.02
# Of somebody who was frozen or stalled the lease is over.
BEYOND_LEASE_SECONDS = 4
STOP_SECONDS = 10
# By this mark the demo finds what would outlive it.
MARK = "REFUND_DESK_DATA"

PROGRAMS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (("qcluster",), {"Q_CLUSTER_NAME": "money", "QUEUE_WORKERS": "1"}),
    (("sweep", "--every", "1", "--threads", "2"), {}),
)


class ArmedWorkers:
    """A few workers with fail points; a context manager that leaves none behind."""

    def __init__(self, demo: Demo, number: int, orders: int, seed: str) -> None:
        self._log = demo.data_dir / "log" / f"drill-{seed}.jsonl"
        self._output = demo.data_dir / "log" / "drill-workers.log"
        self._lease_seconds = demo.lease_seconds
        chance = min(max(DEATHS_WANTED / orders, LEAST_CHANCE), MOST_CHANCE)
        self._environment = {
            **os.environ,
            **demo.environment,
            MARK: str(demo.data_dir),
            "FAIL_POINTS": _rules(chance, self._lease_seconds + BEYOND_LEASE_SECONDS),
            "FAIL_SEED": seed,
            "FAIL_LOG": str(self._log),
        }
        self._programs = [program for program, _ in zip(cycle(PROGRAMS), range(number))]
        self._running: list[subprocess.Popen[bytes]] = []
        self._frozen: dict[int, float] = {}

    def __enter__(self) -> ArmedWorkers:
        self._running = [self._start(*program) for program in self._programs]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill them all; none is started again."""
        for process in self._running:
            _end(process)
        self._running = []

    def tend(self) -> None:
        """Start again what has ended, continue what has slept past its lease."""
        for place, process in enumerate(self._running):
            if process.poll() is not None:
                # A killed cluster's children would work on without it.
                _end(process)
                self._running[place] = self._start(*self._programs[place])
        self._thaw()

    def struck(self) -> Counter[str]:
        """What the fail points did: how often a worker was killed, frozen or stalled at each."""
        if not self._log.exists():
            return Counter()
        hits = map(json.loads, self._log.read_text().splitlines())
        return Counter(f"{hit['action'].partition(':')[0]} {hit['point']}" for hit in hits)

    def _start(self, command: tuple[str, ...], own: dict[str, str]) -> subprocess.Popen[bytes]:
        with self._output.open("a") as output:
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "manage.py", *command],
                cwd=settings.BASE_DIR,
                env={**self._environment, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _thaw(self) -> None:
        now = time.monotonic()
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_STOPPED:
                    self._frozen.pop(process.pid, None)
                    continue
                since = self._frozen.setdefault(process.pid, now)
                if now - since > self._lease_seconds + BEYOND_LEASE_SECONDS:
                    process.resume()

    def _family(self) -> list[psutil.Process]:
        family: list[psutil.Process] = []
        for running in self._running:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(running.pid)
                family += [process, *process.children(recursive=True)]
        return family


def _rules(chance: float, stall_seconds: float) -> str:
    """FAIL_POINTS: each point kills, and some freeze or stall their worker past its lease."""
    rules = [f"{point}=kill@{chance:.4f}" for point in POINTS]
    rules += [f"{point}=freeze@{chance / 4:.4f}" for point in FREEZING_POINTS]
    rules += [f"{point}=stall:{stall_seconds:.0f}@{chance / 4:.4f}" for point in FREEZING_POINTS]
    return ",".join(rules)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker and all its children, frozen ones too."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_SECONDS)
