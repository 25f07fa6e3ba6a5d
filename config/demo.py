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
import secrets
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any

from config.database_url import NoDatabase, require_database
from config.embedded import EmbeddedServerError, ensure_server, stop_server
from config.ports import HOST, is_answered, is_free
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
PORTS = {"PORT": 8000, "PROVIDER_PORT": 8001, "ERP_PORT": 8002}
USERS = ("desk", "manager", "finance", "admin")
TOKENS = ("integration", "online", "manager", "finance")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoError(RuntimeError):
    """The demo cannot start; the text says what to do."""


class Stopped(BaseException):
    """A signal has asked the demo to stop."""


@dataclass(frozen=True)
class Place:
    """Where the demo lives: its data directory and its three ports."""

    data_dir: Path
    web_port: int
    provider_port: int
    erp_port: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Place:
        """Read DATA_DIR, PORT, PROVIDER_PORT and ERP_PORT. Raises DemoError."""
        ports = [_port(name, environment.get(name, str(PORTS[name]))) for name in PORTS]
        if len(set(ports)) < len(ports):
            raise DemoError(f"{', '.join(PORTS)} must be three different ports, not {ports}.")
        data_dir = Path(environment.get("DATA_DIR", ".data")).absolute()
        return cls(data_dir, *ports)

    @property
    def web(self) -> str:
        """The product's address."""
        return f"http://{HOST}:{self.web_port}"

    @property
    def provider(self) -> str:
        """The sandbox provider's address."""
        return f"http://{HOST}:{self.provider_port}"

    @property
    def erp(self) -> str:
        """The sandbox ERP's address."""
        return f"http://{HOST}:{self.erp_port}"

    @property
    def ready_file(self) -> Path:
        """The file that is there exactly while everything is up."""
        return self.data_dir / "demo.json"

    def forget(self) -> None:
        """Remove what says that a demo runs here."""
        self.ready_file.unlink(missing_ok=True)
        environment_file(self.data_dir).unlink(missing_ok=True)

    def require_free_ports(self) -> None:
        """Raise DemoError naming every port that somebody else uses."""
        ports = zip(PORTS, (self.web_port, self.provider_port, self.erp_port), strict=True)
        taken = [
            f"port {port} (set {name} to another)" for name, port in ports if not is_free(port)
        ]
        if taken:
            raise DemoError(f"Another program uses {' and '.join(taken)}.")


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
        own = _environment(place, database_url)
        processes = Processes(place.data_dir, {**os.environ, **own})
        try:
            _start_sandboxes(place, processes)
            accounts = _prepare(processes)
            write_private(environment_file(place.data_dir), json.dumps(own, indent=2))
            _start_product(place, processes)
            _announce(place, database_url, accounts)
            processes.watch()
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


def _environment(place: Place, database_url: str) -> dict[str, str]:
    """What every process of the demo sees; nothing of the caller's may lead it elsewhere."""
    secrets_path = place.data_dir / "secrets.json"
    own = _secrets(secrets_path)
    return {
        "DJANGO_ENV": "demo",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATA_DIR": str(place.data_dir),
        "DATABASE_URL": database_url,
        "PORT": str(place.web_port),
        "PROVIDER_PORT": str(place.provider_port),
        "ERP_PORT": str(place.erp_port),
        "ALLOWED_HOSTS": f"{HOST},localhost",
        "SECRET_KEY": own["secret_key"],
        "STRIPE_API_KEY": own["stripe_api_key"],
        "STRIPE_API_BASE": place.provider,
        "STRIPE_WEBHOOK_SECRET": own["stripe_webhook_secret"],
        "ERP_URL": place.erp,
        "DEMO_SECRETS": str(secrets_path),
        "PYTHONUNBUFFERED": "1",
        # A proxy of the caller's has no business between the product and its sandboxes.
        "NO_PROXY": f"{HOST},localhost",
        "no_proxy": f"{HOST},localhost",
    }


def _secrets(path: Path) -> dict[str, Any]:
    """Return the data directory's secrets; drawn by lot once, then kept."""
    if not path.exists():
        drawn = {
            "secret_key": secrets.token_urlsafe(50),
            "stripe_api_key": f"sk_test_{secrets.token_hex(16)}",
            "stripe_webhook_secret": f"whsec_{secrets.token_hex(24)}",
            "passwords": {name: secrets.token_urlsafe(9) for name in USERS},
            "tokens": {name: secrets.token_hex(20) for name in TOKENS},
        }
        write_private(path, json.dumps(drawn, indent=2))
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


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


def _port(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise DemoError(f"{name} must be a port number, not {text!r}.")
    return int(text)


def _stop_once(_number: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the stopping.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
