"""Kill -9 in the middle of the long work of the books: nothing is half done, nothing is blocked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from reconciliation.models import Mismatch, ReconciliationRun, SettlementImport, SettlementLine
from reconciliation.runs import reconcile, take_up
from reconciliation.statement_import import import_file
from returns.errors import WrongState
from tests import factories
from tests.oracle import refused
from tests.past import write_past
from tests.recovery.conftest import WorkerProcess, wait_until

STATE = ReconciliationRun.State
WORK = "tests.recovery.long_work"
HEADER = "line_id,type,refund,payment,amount,currency,created,operation_key\n"
START = timezone.now().replace(hour=8, minute=0, second=0, microsecond=0) - timedelta(days=40)
DAYS = 30
DUPLICATES = 50
# The same file with four times the rows: what is not linear shows; what the machine does besides
# must not.
MOST_TIMES_LONGER = 5


def nothing(*_: object) -> None:
    """Everything is there already."""


def test_a_killed_run_is_seen_to_be_dead_and_blocks_nobody(
    start_worker: Callable[..., WorkerProcess],
) -> None:
    today = timezone.now().date()
    worker = start_worker(f"{WORK}:reconcile_and_stand_still", today.isoformat())
    wait_until(lambda: ReconciliationRun.objects.filter(state=STATE.RUNNING).exists())
    with refused(WrongState):
        reconcile(first=today, last=today, by=None, collect=nothing)
    assert take_up(nothing) is None

    worker.kill()
    wait_until(lambda: not _lock_is_held())
    assert reconcile(first=today, last=today, by=None, collect=nothing).state == STATE.FINISHED
    states = ReconciliationRun.objects.order_by("pk").values_list("state", "stage")
    assert list(states) == [(STATE.FAILED, "was killed"), (STATE.FINISHED, "")]


def _lock_is_held() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        return bool(cursor.fetchone()[0])


def settlement(rows: int, path: Path) -> Path:
    """Lines for operations 1 to `rows`: one in 200 names an unknown refund, 50 come twice."""
    first_moments = ((START + timedelta(days=n % DAYS)).isoformat() for n in range(1, rows + 1))
    lines = [
        f"txn_{n},refund,{'re_nobody' if n % 200 == 0 else 're_past'}_{n},pi_past_{n},"
        f"-{n // 100}.{n % 100:02},EUR,{at},\n"
        for n, at in enumerate(first_moments, 1)
    ]
    path.write_text(HEADER + "".join(lines + lines[:DUPLICATES]))
    return path


def taken_in(path: Path) -> SettlementImport:
    with path.open("rb") as file:
        return import_file(file=file, name="big", source="sandbox", by=factories.finance())


def test_a_file_killed_at_row_25000_and_sent_again_is_one_clean_import(
    start_worker: Callable[..., WorkerProcess], tmp_path: Path
) -> None:
    factories.finance()
    path, marker = settlement(40_000, tmp_path / "big.csv"), tmp_path / "marker"
    worker = start_worker(f"{WORK}:import_and_stand_still", str(path), 25_000, str(marker))
    wait_until(marker.exists)
    worker.kill()
    assert SettlementLine.objects.count() == 0
    assert SettlementImport.objects.count() == 0
    again = taken_in(path)
    assert (again.new, again.known) == (40_000, DUPLICATES)


@pytest.mark.django_db
def test_four_times_the_rows_take_four_times_as_long(tmp_path: Path) -> None:
    """Each file against 10,000 refunds in the table: every stranger is found, and once."""
    write_past(10_000, start=START, days=DAYS, with_lines=False)
    seconds = {}
    for rows in (10_000, 40_000):
        path = settlement(rows, tmp_path / f"{rows}.csv")
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE reconciliation_settlementline DISABLE TRIGGER USER")
            cursor.execute("DELETE FROM reconciliation_settlementline")
            cursor.execute("ALTER TABLE reconciliation_settlementline ENABLE TRIGGER USER")
        started = time.monotonic()
        statement = taken_in(path)
        seconds[rows] = time.monotonic() - started
        assert (statement.new, statement.known) == (rows, DUPLICATES)
    assert seconds[40_000] / seconds[10_000] <= MOST_TIMES_LONGER
    reconcile(
        first=START.date(),
        last=(START + timedelta(days=DAYS)).date(),
        by=None,
        collect=nothing,
    )
    strangers = Mismatch.objects.filter(detail__startswith="re_nobody")
    assert Counter(strangers.values_list("kind", flat=True)) == {"payment_without_operation": 200}
