"""Runs a sandbox as the separate process it is, for tests and drills."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

PROJECT_ROOT = Path(__file__).resolve().parents[2]
_STOP_TIMEOUT_SECONDS = 10


class SandboxProcess:
    """A context manager; after a `kill` it can be started again on the same port and data."""

    def __init__(self, module: str, data: Path, *options: str, port: int = 0) -> None:
        self._module = module
        self._data = data
        self._options = options
        self._port = port
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns once it listens; raises RuntimeError when it refuses to start."""
        place = ("--port", str(self._port), "--data", str(self._data))
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", self._module, *place, *self._options],
            cwd=PROJECT_ROOT,
            env=os.environ | {"DJANGO_ENV": "test"},
            stdout=subprocess.PIPE,
            text=True,
        )
        first_line = self._process.stdout.readline() if self._process.stdout else ""
        address = re.search(r"http://127\.0\.0\.1:(\d+)", first_line)
        if address is None:
            raise RuntimeError(f"{self._module} did not start: exit {self._process.wait()}")
        self._port = int(address[1])

    def kill(self) -> None:
        """SIGKILL: no clean-up, no farewell."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code, 0 when the shut-down was clean."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        with process:  # closes the pipe and waits
            return process.wait(_STOP_TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
