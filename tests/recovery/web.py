"""The real web server, as a group of processes that a test starts and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from django.conf import settings

from config.ports import HOST, any_free
from payments.sandbox.process import PROJECT_ROOT
from tests.recovery.journeys import Request

# A machine that is busy with other things starts it slowly.
START_SECONDS = 60
ADDRESSES = ("STRIPE_API_BASE", "STRIPE_WEBHOOK_SECRET", "ERP_URL")


def environment(database_url: str, **more: str) -> dict[str, str]:
    """What a process of the product needs to work on this database and with the sandboxes."""
    addresses = {name: str(getattr(settings, name)) for name in ADDRESSES}
    return {**os.environ, "DJANGO_ENV": "test", "DATABASE_URL": database_url, **addresses, **more}


@contextmanager
def program_group(
    log: Path, environment: dict[str, str], *command: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A program with all its children; at the end they are killed, and none gets a farewell."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=PROJECT_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Web:
    """A server as its clients see it."""

    def __init__(self, port: int) -> None:
        self._http = httpx.Client(base_url=f"http://{HOST}:{port}", timeout=30)

    def send(self, request: Request) -> int:
        """The status of the answer. Raises httpx.TransportError where there is none."""
        return self._http.request(
            request.method, request.path, content=request.body, headers=request.headers
        ).status_code

    def is_ready(self) -> bool:
        try:
            return self._http.get("/healthz").is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self._http.close()


@contextmanager
def web_server(log: Path, environment: dict[str, str]) -> Iterator[Web]:
    """gunicorn serving the product, ready to answer."""
    port = any_free()
    command = [
        *("-m", "gunicorn", "config.wsgi:application", f"--bind={HOST}:{port}"),
        *("--worker-class=gthread", "--threads=4", "--no-control-socket"),
    ]
    with program_group(log, environment, *command) as process:
        web = Web(port)
        deadline = time.monotonic() + START_SECONDS
        while not web.is_ready():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)
        yield web
        web.close()
