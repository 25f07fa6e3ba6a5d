"""Servers that others wrote, each in a process of its own and on loopback only.

`make servers` installs them beside the tools. Where they are missing their tests are skipped, and
in continuous integration (CI is set) they fail.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

INSTALLED = Path(sys.prefix) / "servers"
LAUNCHERS = Path(__file__).resolve().parent / "servers"
_STOP_SECONDS = 10


class ForeignServer:
    """A command that prints its address on 127.0.0.1 first, and ends with its standard input."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = {**os.environ, **environment}
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[ForeignServer]:
        """Runs until the block ends. Raises RuntimeError when it does not say where it listens."""
        with subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            self._process = psutil.Process(process.pid)
            try:
                line = process.stdout.readline() if process.stdout else ""
                address = re.search(r"http://127\.0\.0\.1:\d+", line)
                if address is None:
                    raise RuntimeError(f"{self._command} did not start: {line}")
                self.url = address[0]
                yield self
            finally:
                process.terminate()
                process.wait(_STOP_SECONDS)

    def listens_on(self) -> set[str]:
        """The addresses under which other machines, or only this one, can reach it."""
        return {
            connection.laddr.ip
            for connection in self._process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }


def localstripe() -> ForeignServer:
    """`localstripe` (PyPI, GPL): ignores idempotency keys and accepts more than was captured."""
    python = INSTALLED / "localstripe" / "bin" / "python"
    _needed(python)
    return ForeignServer([str(python), str(LAUNCHERS / "run_localstripe.py")], {})


def stateful_mock() -> ForeignServer:
    """`stripe-stateful-mock` (npm, MIT): honours idempotency keys; charges only, no intents."""
    modules = INSTALLED / "stateful-mock" / "node_modules"
    _needed(modules / "stripe-stateful-mock")
    launcher = str(LAUNCHERS / "run_stateful_mock.js")
    return ForeignServer(["node", launcher], {"NODE_PATH": str(modules), "LOG_LEVEL": "silent"})


def _needed(path: Path) -> None:
    """Skip, or in continuous integration fail, where it is not installed."""
    if path.exists():
        return
    reason = (
        f"{path.relative_to(INSTALLED.parent)} is not installed: `make servers` needs a network"
    )
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
