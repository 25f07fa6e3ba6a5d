"""Take a settlement file in: all of it or nothing, and each of its lines once.

The file streams into a table of its own; one statement then takes over what is new. Whatever ends
the import early leaves nothing behind, and doing it again gives what one clean import gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from reconciliation.models import SettlementImport, SettlementRefusal
from reconciliation.statements.formats import Format
from reconciliation.statements.reading import Line, Refused, read
from returns.errors import Invalid
from returns.permissions import require
from returns.timeline import refusals_are_recorded

# A file with more refused lines than this is the wrong file; the rest are only counted.
MOST_REFUSALS_KEPT = 1000
PROGRESS_EVERY = 5_000

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """Where lines come from: whose account at which provider they are about."""

    name: str
    account: str
    provider: str


@dataclass
class _Count:
    about_refunds: int = 0
    other: int = 0
    refused: int = 0
    refusals: list[Refused] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.about_refunds + self.other + self.refused


def source_called(name: str) -> tuple[Source, Format]:
    """A declared source of files, and how they are written: nothing is guessed.

    Raises Invalid for one that nobody has declared.
    """
    declared = settings.SETTLEMENT_SOURCES.get(name)
    if declared is None:
        known = ", ".join(sorted(settings.SETTLEMENT_SOURCES))
        raise Invalid({"source": f"“{name}” is not a declared source. Declared are: {known}."})
    written: Format = import_string(declared["format"])
    return Source(name, declared["account"], written.provider), written


@refusals_are_recorded("import_settlement")
def import_file(
    *, file: IO[bytes], name: str, source: str, by: User, progress: Progress = lambda _rows: None
) -> SettlementImport:
    """Take the lines of a file in. Lines that are known already change nothing.

    Raises NotAllowed (role), Invalid for an unknown source, NotReadable for a file that is not as
    declared; then nothing has been taken in. Refused lines are kept with their numbers and reasons.
    """
    require(by, "import_settlement")
    declared, written = source_called(source)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.seek(0)
    lines = read(file, written)
    return take_in(declared, lines, name=name, sha256=digest, by=by, progress=progress)


def take_in(
    source: Source,
    lines: Iterable[Line | Refused | None],
    *,
    name: str,
    by: User,
    sha256: str = "",
    progress: Progress = lambda _rows: None,
) -> SettlementImport:
    """Take lines in, wherever they come from, in one transaction."""
    with transaction.atomic():
        count = _stage(lines, progress)
        statement = SettlementImport.objects.create(
            source=source.name,
            name=name[:200],
            sha256=sha256,
            imported_by=by,
            imported_at=timezone.now(),
            refused=count.refused,
            other=count.other,
        )
        statement.new = _take_over(source, statement)
        statement.known = count.about_refunds - statement.new
        statement.save(update_fields=["new", "known"])
        SettlementRefusal.objects.bulk_create(
            SettlementRefusal(statement=statement, number=refusal.number, reason=refusal.reason)
            for refusal in count.refusals
        )
    return statement


def _stage(lines: Iterable[Line | Refused | None], progress: Progress) -> _Count:
    """Stream the lines into a table that lives as long as this transaction."""
    count = _Count()
    with connection.cursor() as cursor:
        cursor.execute(_STAGE)
        with cursor.copy(_COPY) as copy:
            for line in lines:
                _count(count, line)
                if isinstance(line, Line):
                    copy.write_row(_cells(line))
                if count.rows % PROGRESS_EVERY == 0:
                    progress(count.rows)
    return count


def _count(count: _Count, line: Line | Refused | None) -> None:
    if isinstance(line, Line):
        count.about_refunds += 1
    elif line is None:
        count.other += 1
    else:
        count.refused += 1
        if len(count.refusals) < MOST_REFUSALS_KEPT:
            count.refusals.append(line)


def _cells(line: Line) -> tuple[object, ...]:
    return (
        *(line.number, line.line_id, line.content, line.kind.value),
        *(line.refund, line.payment, line.operation),
        *(line.amount_minor, line.currency, line.at),
    )


def _take_over(source: Source, statement: SettlementImport) -> int:
    """Keep the staged lines that are new; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_OVER, [source.account, source.provider, statement.pk])
        new = int(cursor.rowcount)
        cursor.execute("DROP TABLE staged_line")
    return new


_STAGE = """
    CREATE TEMPORARY TABLE staged_line (
        number integer, line_id text, content bytea, kind text,
        refund text, payment text, operation text,
        amount_minor bigint, currency text, at timestamptz
    ) ON COMMIT DROP
"""

_COPY = "COPY staged_line FROM STDIN"

# A line without a number of its own is the n-th of its content in its file: two equal rows are two
# real refunds, and the same two rows in the next file are still the same two.
_TAKE_OVER = """
    INSERT INTO reconciliation_settlementline (
        account, identity, provider, statement_id, number, kind,
        refund, payment, operation, amount_minor, currency, at
    )
    SELECT %s, CASE
            WHEN line_id <> '' THEN line_id
            ELSE encode(content, 'hex') || ':'
                || row_number() OVER (PARTITION BY line_id, content ORDER BY number)
        END,
        %s, %s, number, kind, refund, payment, operation, amount_minor, currency, at
    FROM staged_line
    ORDER BY number
    ON CONFLICT (account, identity) DO NOTHING
"""
