"""DATABASE_URL: which PostgreSQL database, at which address, as whom."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import psycopg

CONNECT_SECONDS = 5
SCHEMES = ("postgresql", "postgres")
RULE = (
    "DATABASE_URL must name a PostgreSQL database, such as "
    "postgresql://user:password@127.0.0.1:5432/refunds."
)


class NoDatabase(ValueError):
    """There is no database that could be used; the text says why, without any password."""


@dataclass(frozen=True)
class DatabaseAddress:
    """The parts of a DATABASE_URL; what is not said is empty."""

    host: str
    port: int | None
    name: str
    user: str
    password: str

    @classmethod
    def read(cls, url: str) -> DatabaseAddress:
        """The parts of an address with its escapes undone. Raises NoDatabase."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise NoDatabase(RULE) from error
        name = unquote(parts.path.removeprefix("/"))
        if parts.scheme not in SCHEMES or not name or "/" in name:
            raise NoDatabase(RULE)
        return cls(
            host=parts.hostname or "",
            port=port,
            name=name,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )


def require_database(url: str) -> None:
    """Connect once. Raises NoDatabase."""
    DatabaseAddress.read(url)
    try:
        psycopg.connect(url, connect_timeout=CONNECT_SECONDS).close()
    except psycopg.Error as error:
        # What follows is advice, or the same about another address of the host.
        reason = str(error).partition("\n")[0]
        raise NoDatabase(f"DATABASE_URL names no database to be used: {reason}") from error
