"""The PostgreSQL of our own: who gets in, where it listens, what survives a crash."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import psutil
import psycopg
import pytest

from config.embedded import (
    EmbeddedServerError,
    ensure_server,
    is_up,
    restart_server,
    revive_server,
    running,
    server_url,
    stop_server,
)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not tmp_path: PostgreSQL's account cannot reach what belongs to root alone.
    with tempfile.TemporaryDirectory(prefix="refund-desk-test-") as directory:
        yield Path(directory)
        stop_server(Path(directory), mode="immediate")


def _kill(data_dir: Path) -> None:
    """Kill the server as a power cut would: no farewell, no clean files."""
    pid = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    server = psutil.Process(pid)
    server.kill()
    server.wait()


def _ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_everyone_is_asked_for_a_password(data_dir: Path) -> None:
    with running(data_dir) as url:
        facts = psycopg.conninfo.conninfo_to_dict(url)
        for user in (facts["user"], "postgres"):
            address = f"postgresql://{user}@{facts['host']}:{facts['port']}/postgres"
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(address, passfile="/dev/null")


def test_product_is_no_superuser_and_listens_on_one_loopback_address(data_dir: Path) -> None:
    with running(data_dir) as url:
        assert _ask(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert _ask(url, "SHOW listen_addresses") == "127.0.0.1"
        assert _ask(url, "SHOW timezone") == "UTC"
        assert _ask(url, "SHOW server_encoding") == "UTF8"
        assert int(str(_ask(url, "SHOW max_connections"))) >= 200


def test_passwords_are_for_the_owner_only(data_dir: Path) -> None:
    with running(data_dir):
        assert (data_dir / "postgres.json").stat().st_mode & 0o077 == 0


def test_durable_data_survives_a_killed_server(data_dir: Path) -> None:
    with psycopg.connect(ensure_server(data_dir)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    _kill(data_dir)

    assert _ask(ensure_server(data_dir), "SELECT one FROM kept") == 1


def test_hasty_data_is_thrown_away_after_a_crash_and_kept_otherwise(data_dir: Path) -> None:
    with psycopg.connect(ensure_server(data_dir, durable=False)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    stop_server(data_dir)
    url = ensure_server(data_dir, durable=False)
    assert _ask(url, "SELECT one FROM kept") == 1
    _kill(data_dir)

    url = ensure_server(data_dir, durable=False)

    assert _ask(url, "SELECT to_regclass('kept')") is None


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_keeps_address_and_data(
    data_dir: Path, mode: Literal["fast", "immediate"]
) -> None:
    url = ensure_server(data_dir)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    assert restart_server(data_dir, mode) == url
    assert _ask(url, "SELECT one FROM kept") == 1


def test_a_dead_server_is_noticed_and_revived_at_its_address(data_dir: Path) -> None:
    assert not is_up(data_dir)
    url = ensure_server(data_dir)
    assert is_up(data_dir)
    _kill(data_dir)
    assert not is_up(data_dir)

    revive_server(data_dir)

    assert is_up(data_dir)
    assert _ask(url, "SELECT 1") == 1


def test_server_is_started_once_and_stopped_by_who_started_it(data_dir: Path) -> None:
    with running(data_dir) as url:
        with running(data_dir) as same:
            assert same == url
        assert server_url(data_dir) == url
    with pytest.raises(EmbeddedServerError):
        server_url(data_dir)
