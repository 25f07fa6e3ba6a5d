"""Programs that run side by side: started, watched, started again, and stopped without remainder.

Each program leads a session of its own, so that it and all its children are one process group. All
of them, however deep, carry the data directory's mark in their environment: that is how a later
start finds what an earlier one left behind when it was killed. The supervisor adopts the orphans
below it, for in a container there may be nobody else to reap them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from config.private_files import write_private

ROOT = Path(__file__).resolve().parent.parent
MARK = "REFUND_DESK_DATA"
POLL_SECONDS = 0.2
# Long enough for a worker to finish the call it is in; what is left then is killed.
STOP_SECONDS = 10
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0
# A program that lasted this long did not die of its start: when it is killed, it comes back soon.
STEADY_SECONDS = 15.0
LOG_LINES_SHOWN = 15
# From Linux's prctl.h.
PR_SET_CHILD_SUBREAPER = 36


class ProgramError(RuntimeError):
    """A program ended when it should not have; the text has the end of its log."""


@dataclass(frozen=True)
class Program:
    """What to run under which name, with what its environment has beyond everyone's."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """One program and the process that runs it now."""

    def __init__(self, program: Program, environment: Mapping[str, str], log: Path) -> None:
        self.name = program.name
        self.log = log
        self._command = program.command
        self._environment = {**environment, **program.environment}
        self._delay_seconds = FIRST_DELAY_SECONDS
        self._start_at: float | None = None
        self.start()

    def start(self) -> None:
        """Start the process; its output is added to the log."""
        self._start_at = None
        self._started_at = time.monotonic()
        with self.log.open("a") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def revive(self) -> bool:
        """Start an ended process again when its time has come; return whether that was now."""
        if not self.ended:
            return False
        if self._start_at is None:
            self._plan_start()
        elif time.monotonic() >= self._start_at:
            self.start()
            return True
        return False

    def terminate(self) -> None:
        """Ask the process to stop; it stops its own children in the order it needs."""
        if not self.ended:
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process and every child of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _plan_start(self) -> None:
        # The children of a killed process would work on beside those of the new one.
        self.kill()
        now = time.monotonic()
        if now - self._started_at > STEADY_SECONDS:
            self._delay_seconds = FIRST_DELAY_SECONDS
        self._start_at = now + self._delay_seconds
        print(
            f"{self.name} has ended ({self.process.returncode}) and starts again "
            f"in {self._delay_seconds:.0f} s; see {self.log}"
        )
        self._delay_seconds = min(self._delay_seconds * 2, LONGEST_DELAY_SECONDS)


class Processes:
    """All programs of one data directory."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._environment = {**environment, MARK: str(data_dir)}
        self._log_dir = data_dir / "log"
        self._log_dir.mkdir(exist_ok=True)
        self._stages: list[list[Child]] = []

    def run(self, name: str, command: Sequence[str]) -> str:
        """Run a program to its end and return what it prints. Raises ProgramError."""
        log = self._log_dir / f"{name}.log"
        with log.open("w") as errors:
            result = subprocess.run(  # noqa: S603 - our own programs
                command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
                start_new_session=True,
            )
        if result.returncode != 0:
            raise ProgramError(f"{name} failed:\n{result.stdout}{_tail(log)}")
        return result.stdout

    def start(self, *programs: Program) -> None:
        """Start programs that stand on those started before."""
        stage: list[Child] = []
        self._stages.append(stage)
        for program in programs:
            log = self._log_dir / f"{program.name}.log"
            stage.append(Child(program, self._environment, log))
        self._write_pids()

    def check(self) -> None:
        """Raise ProgramError if a program has ended."""
        for child in self._children:
            if child.ended:
                raise ProgramError(f"{child.name} ended:\n{_tail(child.log)}")

    def watch(self, look_after: Callable[[], None] = lambda: None) -> None:
        """Start again whatever ends, until an exception (a signal's, say) ends the watch.

        `look_after` is called in every round, for what the programs stand on.
        """
        while True:
            look_after()
            if any(child.revive() for child in self._children):
                self._write_pids()
            self._reap_orphans()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop the programs, the last started first, and leave no process behind."""
        for stage in reversed(self._stages):
            for child in stage:
                child.terminate()
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline and not all(child.ended for child in stage):
                time.sleep(POLL_SECONDS)
            for child in stage:
                child.kill()
        kill_marked(self._data_dir)
        self._pids_path.unlink(missing_ok=True)

    def _reap_orphans(self) -> None:
        own = {child.process.pid for child in self._children}
        with suppress(ChildProcessError):
            # Looking does not take: the end of our own children is for `revive` to see.
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            while (found := os.waitid(os.P_ALL, 0, look)) and found.si_pid not in own:
                os.waitpid(found.si_pid, 0)

    @property
    def _children(self) -> list[Child]:
        return [child for stage in self._stages for child in stage]

    @property
    def _pids_path(self) -> Path:
        return self._data_dir / "processes.json"

    def _write_pids(self) -> None:
        """Tell drills where to find the programs: name and pid of each."""
        pids = {child.name: child.process.pid for child in self._children}
        write_private(self._pids_path, json.dumps(pids, indent=2))


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends before it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def outlive_children() -> None:
    """Wait until the children that are ending, adopted ones too, have ended."""
    psutil.wait_procs(psutil.Process().children(), timeout=STOP_SECONDS)


def kill_marked(data_dir: Path) -> None:
    """Kill every process that was started for a data directory, and all that come from it."""
    while marked := [process for process in psutil.process_iter() if _is_marked(process, data_dir)]:
        for process in marked:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(marked)


def _is_marked(process: psutil.Process, data_dir: Path) -> bool:
    with suppress(psutil.Error):
        return process.environ().get(MARK) == str(data_dir)
    return False


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-LOG_LINES_SHOWN:])
