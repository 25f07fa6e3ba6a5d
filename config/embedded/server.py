"""One PostgreSQL server: its cluster on disk, its processes, its record of port and passwords."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, LiteralString

import psutil
import psycopg
from psycopg import sql

from config.embedded.programs import Account, EmbeddedServerError, new_home, reachable_programs
from config.ports import HOST, any_free, is_free
from config.private_files import write_private

ROLE = DATABASE = "refund_desk"
SUPERUSER = "postgres"
START_SECONDS = 60
ORPHAN_SECONDS = 10
POLL_SECONDS = 0.1

SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "''",
    # Sixteen web threads, two queues, the tests, and drills with dozens of clients at once.
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# For data that nobody misses after a crash.
HASTY_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
}

StopMode = Literal["smart", "fast", "immediate"]
Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass
class Record:
    """What is remembered about a server from one start to the next."""

    port: int = 0
    durable: bool = True
    # Set when the server's account cannot reach the data directory: where the cluster is instead.
    elsewhere: str | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    superuser_password: str = field(default_factory=lambda: secrets.token_urlsafe(24))


class Server:
    """The server that belongs to one data directory. One process at a time may use it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.account = Account()
        self.record = self._recorded()
        self.home = self._settle()
        self.pgdata = self.home / "postgres"

    @property
    def url(self) -> str:
        """The address of the product's database, as DATABASE_URL takes it."""
        return f"postgresql://{ROLE}:{self.record.password}@{HOST}:{self.record.port}/{DATABASE}"

    @property
    def running(self) -> bool:
        """Whether the process that postmaster.pid names is alive and this cluster's."""
        pid = self._postmaster_pid()
        return any(process.pid == pid for process in self._processes())

    @property
    def has_a_living_postmaster(self) -> bool:
        """Whether some process has the pid that postmaster.pid names: `running`, but cheaper."""
        pid = self._postmaster_pid()
        return pid is not None and psutil.pid_exists(pid)

    def start(self, *, durable: bool, same_port: bool = False) -> None:
        """Start the server and wait until it answers; make its cluster first if there is none.

        With `same_port` it waits for its port, for those who have its address already. Raises
        EmbeddedServerError.
        """
        self._clear_remains(durable=durable)
        programs = reachable_programs(self.account, self.home)
        if not self.pgdata.exists():
            self._initialise(programs / "initdb")
        if same_port and self.record.port:
            self._wait_for_port()
        elif self.record.port == 0 or not is_free(self.record.port):
            self.record.port = any_free()
        self.record.durable = durable
        self._save()
        settings = SETTINGS | {"port": str(self.record.port)} | ({} if durable else HASTY_SETTINGS)
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._pg_ctl("start", f"--log={self.pgdata / 'server.log'}", f"--options={options}")

    def stop(self, mode: StopMode) -> None:
        """Stop the server, if it runs, and wait until it is gone."""
        if self.running:
            self._pg_ctl("stop", f"--mode={mode}")
        self._end_orphans()

    def provide_database(self) -> None:
        """Make the product's role and database unless they exist.

        The role is no superuser: it owns its database and may create others, for the tests.
        """
        role, password = sql.Identifier(ROLE), sql.Literal(self.record.password)
        database = sql.Identifier(DATABASE)
        with self._superuser_connection() as connection:
            if _is_missing(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", ROLE):
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(role, password)
                )
            if _is_missing(connection, "SELECT 1 FROM pg_database WHERE datname = %s", DATABASE):
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))

    def _wait_for_port(self) -> None:
        """A client that tries again and again may happen to leave from just this port."""
        deadline = time.monotonic() + START_SECONDS
        while not is_free(self.record.port):
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"Somebody else uses port {self.record.port}.")
            time.sleep(POLL_SECONDS)

    def _superuser_connection(self) -> Connection:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return psycopg.connect(
                    host=HOST,
                    port=self.record.port,
                    user=SUPERUSER,
                    password=self.record.superuser_password,
                    dbname="postgres",
                    autocommit=True,
                )
            except psycopg.OperationalError as error:
                # A server whose starter was killed may not have finished its recovery.
                if "starting up" not in str(error) or time.monotonic() > deadline:
                    raise EmbeddedServerError(f"PostgreSQL does not answer: {error}") from error
                time.sleep(POLL_SECONDS)

    def _initialise(self, initdb: Path) -> None:
        """Make the cluster beside its place, so that half a cluster is never taken for a whole."""
        # Passwords that are in a cluster must not be lost.
        self._save()
        partial = self.home / "postgres.partial"
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(mode=0o700)
        self.account.own(partial)
        with tempfile.NamedTemporaryFile("w", dir=self.home) as password_file:
            password_file.write(self.record.superuser_password)
            password_file.flush()
            self.account.own(Path(password_file.name))
            arguments = [
                f"--pgdata={partial}",
                f"--username={SUPERUSER}",
                f"--pwfile={password_file.name}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                # The same order of text on every machine, whatever locales it has.
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
            ]
            self.account.run(initdb, arguments)
        partial.rename(self.pgdata)

    def _end_orphans(self) -> None:
        """End what a server without its record or its parent has left."""
        orphans = self._processes()
        for process in orphans:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGQUIT)
        _, alive = psutil.wait_procs(orphans, timeout=ORPHAN_SECONDS)
        if alive:
            pids = ", ".join(str(process.pid) for process in alive)
            raise EmbeddedServerError(f"Processes of an earlier PostgreSQL do not end: {pids}")

    def _clear_remains(self, *, durable: bool) -> None:
        """Make room after a server that was killed."""
        self._end_orphans()
        pid = self._postmaster_pid()
        if pid is not None and not durable and not self.record.durable:
            # Without fsync the files may be torn.
            shutil.rmtree(self.pgdata)
        elif pid is not None and psutil.pid_exists(pid):
            # PostgreSQL would take the stranger who now has this pid for the old server.
            (self.pgdata / "postmaster.pid").unlink()

    def _postmaster_pid(self) -> int | None:
        try:
            return int((self.pgdata / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError, ValueError):
            return None

    def _processes(self) -> list[psutil.Process]:
        """Every process of the cluster: PostgreSQL's all work inside its data directory."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.name() == "postgres" and process.cwd() == str(self.pgdata):
                    found.append(process)
        return found

    def _pg_ctl(self, action: str, *arguments: str) -> None:
        pg_ctl = reachable_programs(self.account, self.home) / "pg_ctl"
        common = [f"--pgdata={self.pgdata}", "--wait", f"--timeout={START_SECONDS}"]
        try:
            self.account.run(pg_ctl, [action, *common, *arguments])
        except EmbeddedServerError as error:
            log = self.pgdata / "server.log"
            last_lines = log.read_text().splitlines()[-10:] if log.exists() else []
            raise EmbeddedServerError("\n".join([str(error), *last_lines])) from error

    @property
    def _record_path(self) -> Path:
        return self.data_dir / "postgres.json"

    def _recorded(self) -> Record:
        try:
            return Record(**json.loads(self._record_path.read_text()))
        except FileNotFoundError:
            return Record()

    def _save(self) -> None:
        write_private(self._record_path, json.dumps(asdict(self.record), indent=2))

    def _settle(self) -> Path:
        """Return the directory the cluster lies in: the data directory wherever possible."""
        if self.record.elsewhere is not None and Path(self.record.elsewhere).is_dir():
            return Path(self.record.elsewhere)
        home = self.data_dir
        self.record.elsewhere = None
        if not self.account.can_reach(home):
            home = new_home()
            self.record.elsewhere = str(home)
            self._save()
        self.account.let_through(home)
        return home


def _is_missing(connection: Connection, query: LiteralString, name: str) -> bool:
    return connection.execute(query, [name]).fetchone() is None
