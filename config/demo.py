"""`make demo`: the whole product on this machine, with a sandbox provider and a sandbox ERP.

Starts PostgreSQL (unless DATABASE_URL names one), migrates, loads the sample orders, starts every
process, writes demo.json once all is up, and watches until SIGINT, SIGTERM or SIGHUP. Everything
listens on 127.0.0.1, everything it keeps lies in the data directory, and the next start goes on
with it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any

from config.database_url import NoDatabase, require_database
from config.demo_place import DemoError, Place, environment_of
from config.embedded import (
    EmbeddedServerError,
    ensure_server,
    is_up,
    revive_server,
    stop_server,
)
from config.ports import HOST, is_answered
from config.private_files import write_private
from config.processes import (
    Processes,
    Program,
    ProgramError,
    adopt_orphans,
    kill_marked,
    outlive_children,
)
from config.running_demo import environment_file

READY_SECONDS = 120
POLL_SECONDS = 0.2
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal has asked the demo to stop."""


def main() -> int:
    """Run the demo until a signal stops it; the exit code."""
    adopt_orphans()
    for number in STOP_SIGNALS:
        # A demo that was started with nohup outlives its terminal.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop_once)
    try:
        place = Place.from_environment(os.environ)
        place.data_dir.mkdir(parents=True, exist_ok=True)
        with _only_demo(place.data_dir):
            _run(place)
    except Stopped:
        print("Stopped.")
    except (DemoError, EmbeddedServerError, NoDatabase, ProgramError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(place: Place) -> None:
    # What an earlier demo left behind when it was killed.
    kill_marked(place.data_dir)
    place.forget()
    place.require_free_ports()
    with _database(place.data_dir) as database_url:
        own = environment_of(place, database_url, os.environ)
        processes = Processes(place.data_dir, {**os.environ, **own})
        try:
            _start_sandboxes(place, processes)
            accounts = _prepare(processes)
            write_private(environment_file(place.data_dir), json.dumps(own, indent=2))
            _start_product(place, processes)
            _announce(place, database_url, accounts)
            processes.watch(partial(_look_after_database, place.data_dir))
        finally:
            place.forget()
            processes.stop()


def _start_sandboxes(place: Place, processes: Processes) -> None:
    print("Starting the sandbox provider and the sandbox ERP")
    webhook_url = f"{place.web}/api/v1/webhooks/stripe/"
    processes.start(
        # It signs its events with STRIPE_WEBHOOK_SECRET.
        _sandbox(
            "provider",
            "payments.sandbox",
            place.provider_port,
            place.data_dir,
            f"--webhook-url={webhook_url}",
        ),
        _sandbox("erp", "reconciliation.sandbox", place.erp_port, place.data_dir),
    )
    for port in (place.provider_port, place.erp_port):
        _wait(processes, partial(is_answered, port), f"nothing answers on port {port}")


def _prepare(processes: Processes) -> dict[str, Any]:
    """Bring the database up to date and load the samples; return users and tokens.

    `demo_accounts` reads passwords and tokens from the file that DEMO_SECRETS names, makes or
    corrects the accounts, and prints {"users": {name: {"username", "password"}}, "tokens": {..}}.
    `load_samples` makes the sample orders and registers their payments at the sandbox provider;
    it changes nothing when they are there.
    """
    print("Preparing the database")
    processes.run("migrate", _management("migrate", "--no-input"))
    processes.run("collectstatic", _management("collectstatic", "--no-input"))
    accounts: dict[str, Any] = json.loads(
        processes.run("demo_accounts", _management("demo_accounts", "--json"))
    )
    print("Loading the sample orders")
    processes.run("load_samples", _management("load_samples"))
    return accounts


def _start_product(place: Place, processes: Processes) -> None:
    print("Starting the web server, the workers and the sweeper")
    processes.start(
        Program("web", _gunicorn(place.web_port)),
        Program("money", _management("qcluster"), {"Q_CLUSTER_NAME": "money"}),
        Program("books", _management("qcluster"), {"Q_CLUSTER_NAME": "books"}),
        Program("sweep", _management("sweep", "--every", "1")),
    )
    _wait(processes, partial(_is_ready, place.web), f"{place.web}/readyz is not ready")


def _announce(place: Place, database_url: str, accounts: Mapping[str, Any]) -> None:
    addresses = {"web": place.web, "provider": place.provider, "erp": place.erp}
    facts = {**addresses, "database_url": database_url, **accounts}
    write_private(place.ready_file, json.dumps(facts, indent=2))
    sign_ins = [
        f"  {user['username']:<12}{user['password']}" for user in accounts["users"].values()
    ]
    print("", f"Refund Desk  {place.web}", "", "  sign in as  password", *sign_ins, sep="\n")
    print(f"\nAPI tokens and all addresses: {place.ready_file}", "Ctrl-C stops it.", sep="\n")


def _sandbox(name: str, module: str, port: int, data_dir: Path, *options: str) -> Program:
    command = [sys.executable, "-m", module, f"--port={port}", f"--data={data_dir / name}"]
    return Program(name, [*command, *options])


def _management(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def _gunicorn(port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "gunicorn", "config.wsgi:application"),
        f"--bind={HOST}:{port}",
        *("--worker-class=gthread", "--workers=2", "--threads=8"),
        # A worker that was killed is back at once: loading the product is done already.
        "--preload",
        "--graceful-timeout=5",
        # Longer than clients keep idle connections, so that none is used as it is being closed.
        "--keep-alive=75",
        # It would listen on a file in the home directory.
        "--no-control-socket",
    ]


def _is_ready(web: str) -> bool:
    # Without the caller's proxies.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{web}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


def _wait(processes: Processes, condition: Callable[[], bool], otherwise: str) -> None:
    """Wait until a condition holds. Raises DemoError when it never does, or ProgramError."""
    deadline = time.monotonic() + READY_SECONDS
    while not condition():
        processes.check()
        if time.monotonic() > deadline:
            raise DemoError(f"After {READY_SECONDS} s {otherwise}.")
        time.sleep(POLL_SECONDS)


@contextmanager
def _database(data_dir: Path) -> Iterator[str]:
    """The DATABASE_URL that was given, or that of a server that runs as long as the demo."""
    given = os.environ.get("DATABASE_URL")
    if given:
        require_database(given)
        yield given
        return
    print("Starting PostgreSQL")
    try:
        yield ensure_server(data_dir)
    finally:
        stop_server(data_dir)
        outlive_children()


def _look_after_database(data_dir: Path) -> None:
    """Start our own PostgreSQL again when it has died, at the address that everyone knows."""
    if os.environ.get("DATABASE_URL") or is_up(data_dir):
        return
    print("PostgreSQL has ended and starts again")
    try:
        revive_server(data_dir)
    except EmbeddedServerError as error:
        # The next round tries again.
        print(error, file=sys.stderr)


@contextmanager
def _only_demo(data_dir: Path) -> Iterator[None]:
    """Hold the data directory; the lock goes with this process, however it ends."""
    with (data_dir / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"A demo runs on {data_dir} already. Stop it, or choose another DATA_DIR."
            ) from None
        yield


def _stop_once(_number: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the stopping.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
