"""Import and match a large past, and set the match's time against a bare join of the same tables.

    DATABASE_URL=… python -m tests.bench.matching --operations 1000000

The database must be migrated and empty; the rows stay in it. Every thousandth operation is spoiled
in one of six ways, and the run must find exactly those.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import django
from django.db import connection

DAYS = 30
# Long enough ago that nothing is under way any more.
START = datetime.now(UTC).replace(hour=8, minute=0) - timedelta(days=2 * DAYS)
ONE_SPOILED_IN = 1000
DECIMALS = {"EUR": 2, "USD": 2, "JPY": 0}
HEADER = "line_id,type,refund,payment,amount,currency,created,operation_key\n"


@dataclass(frozen=True)
class Figures:
    """What one measurement has found; times in seconds, memory in MiB."""

    operations: int
    spoiled: int
    found: int
    unexplained_totals: int
    import_seconds: float
    match_seconds: float
    again_seconds: float
    bare_join_seconds: float
    memory_before_mib: int
    memory_at_a_tenth_mib: int
    peak_memory_mib: int

    @property
    def ratio(self) -> float:
        """How many bare joins the match takes."""
        return round(self.match_seconds / self.bare_join_seconds, 2)


def measure(operations: int) -> Figures:
    """Write the past, import its settlement file, match; raises AssertionError on wrong results."""
    past, factories = import_module("tests.past"), import_module("tests.factories")
    runs = import_module("reconciliation.runs")
    _say("writing the past")
    past.write_past(operations, start=START, days=DAYS, with_lines=False)
    _spoil_entries()
    with tempfile.NamedTemporaryFile(dir=Path.cwd(), prefix="settlement-", suffix=".csv") as file:
        _write_settlement(operations, file)
        before = _memory_mib()
        import_seconds, at_a_tenth = _import(file, operations, factories.finance())
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    bare_join_seconds = min(_bare_join() for _ in range(3))
    first, last = START.date(), (START + timedelta(days=DAYS)).date()

    def match() -> tuple[float, Any]:
        started = time.monotonic()
        run = runs.reconcile(first=first, last=last, by=factories.finance(), collect=_nothing)
        return time.monotonic() - started, run

    match_seconds, run = match()
    again_seconds, again = match()
    assert (again.opened, again.closed) == (0, 0), "the second run changed something"
    return Figures(
        operations=operations,
        spoiled=operations // ONE_SPOILED_IN,
        found=run.opened,
        unexplained_totals=sum(t.unexplained_minor != 0 for t in run.totals.all()),
        import_seconds=round(import_seconds, 2),
        match_seconds=round(match_seconds, 2),
        again_seconds=round(again_seconds, 2),
        bare_join_seconds=round(bare_join_seconds, 2),
        memory_before_mib=before,
        memory_at_a_tenth_mib=at_a_tenth,
        peak_memory_mib=_memory_mib(),
    )


def _nothing(*_: object) -> None:
    """Everything is there already."""


def _import(file: IO[bytes], rows: int, by: Any) -> tuple[float, int]:
    """Seconds of the import, and the peak of memory when a tenth of it was read."""
    at_a_tenth = 0

    def progress(read: int) -> None:
        nonlocal at_a_tenth
        if read <= max(rows // 10, 5_000):
            at_a_tenth = _memory_mib()
        if read % 100_000 == 0:
            _say(f"{read} lines read")

    started = time.monotonic()
    import_module("reconciliation.statement_import").import_file(
        file=file, name="past", source="sandbox", by=by, progress=progress
    )
    return time.monotonic() - started, at_a_tenth


def _write_settlement(operations: int, file: IO[bytes]) -> None:
    _say("writing the settlement file")
    file.write(HEADER.encode())
    for row in _payments(operations):
        file.writelines(line.encode() for line in _lines(*row))
    file.flush()
    file.seek(0)


def _payments(operations: int) -> Iterator[tuple[int, int, str, str, datetime]]:
    """Number, minor units, currency, operation key and time of every payment."""
    step = 50_000
    for first in range(1, operations + 1, step):
        with connection.cursor() as cursor:
            cursor.execute(
                _PAYMENTS, {"names": [f"re_past_{n}" for n in range(first, first + step)]}
            )
            yield from cursor.fetchall()


def _lines(n: int, minor: int, currency: str, key: str, at: datetime) -> Iterator[str]:
    """The lines of one payment: one, but for the spoiled ones."""
    way = (n // ONE_SPOILED_IN) % 6 if n % ONE_SPOILED_IN == 0 else -1
    if way == 0:
        return
    yield _line(f"txn_past_{n}", f"re_past_{n}", minor + 7 * (way == 1), currency, key, at)
    if way == 2:
        yield _line(f"txn_seed_{n}", f"re_seed_{n}", minor, currency, "", at)


def _line(name: str, refund: str, minor: int, currency: str, key: str, at: datetime) -> str:
    whole, part = divmod(minor, 10 ** DECIMALS[currency])
    amount = f"-{whole}.{part:02}" if DECIMALS[currency] else f"-{whole}"
    payment = refund.replace("re_", "pi_")
    return f"{name},refund,{refund},{payment},{amount},{currency},{at.isoformat()},{key}\n"


def _spoil_entries() -> None:
    past = import_module("tests.past")
    with past.without_triggers(), connection.cursor() as cursor:
        for statement in _SPOIL_ENTRIES:
            cursor.execute(statement, {"one_in": ONE_SPOILED_IN})


def _bare_join() -> float:
    started = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute(_BARE_JOIN)
        cursor.fetchall()
    return time.monotonic() - started


def _memory_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _say(words: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {words}\n")


_PAYMENTS = """
    SELECT substr(t.provider_refund, 9)::int, t.amount_minor, t.currency, o.operation_key::text,
        t.finished_at
    FROM payments_paymenttask t
    JOIN returns_refundoperation o ON o.id = t.operation_id
    WHERE t.provider_refund = ANY(%(names)s) ORDER BY t.id
"""

_SPOIL_ENTRIES = (
    """
    DELETE FROM reconciliation_erpentry e USING generate_series(3, 2000000, 6) AS k
    WHERE e.entry = 'past-' || k * %(one_in)s
    """,
    """
    UPDATE reconciliation_erpentry e SET amount_minor = amount_minor + 5
    FROM generate_series(4, 2000000, 6) AS k WHERE e.entry = 'past-' || k * %(one_in)s
    """,
    """
    INSERT INTO reconciliation_erpentry (
        entry, reference, amount_minor, currency, posted_on, seen_at, listed_as
    )
    SELECT 'seed' || substr(e.entry, 5), md5(e.entry)::uuid::text, e.amount_minor, e.currency,
        e.posted_on, e.seen_at, ''
    FROM generate_series(5, 2000000, 6) AS k
    JOIN reconciliation_erpentry e ON e.entry = 'past-' || k * %(one_in)s
    """,
)

# Every row of the three tables once, joined by reference, and counted where they differ.
_BARE_JOIN = """
    SELECT count(*), count(*) FILTER (
        WHERE t.amount_minor IS DISTINCT FROM l.amount_minor
            OR t.amount_minor IS DISTINCT FROM e.amount_minor
    )
    FROM payments_paymenttask t
    JOIN returns_refundoperation o ON o.id = t.operation_id
    FULL JOIN reconciliation_settlementline l
        ON l.provider = t.provider AND l.refund = t.provider_refund
    FULL JOIN reconciliation_erpentry e ON e.reference = o.operation_key::text
"""


def main() -> int:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    figures = measure(parser.parse_args().operations)
    sys.stdout.write(json.dumps({**asdict(figures), "ratio": figures.ratio}, indent=2) + "\n")
    return int(figures.found != figures.spoiled or figures.unexplained_totals > 0)


if __name__ == "__main__":
    django.setup()
    sys.exit(main())
