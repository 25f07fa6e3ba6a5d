"""Bring in what provider and ERP list for a window, by the same door as settlement files.

Lists are read in batches: a batch is read whole, with no transaction open, and then taken in within
one. So memory holds one batch, nothing waits for the network while it holds locks, and a run that
is killed has kept what it had; reading again from the start changes nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from payments.providers import provider
from payments.providers.base import Movement
from reconciliation.erp import erp
from reconciliation.erp.base import Entry, ErpUnknown
from reconciliation.matching.scope import Window
from reconciliation.statement_import import Source, take_in
from reconciliation.statements.formats import LineKind
from reconciliation.statements.reading import Line
from returns import money
from returns.order_import import importer

Row = TypeVar("Row")
Say = Callable[[str], None]

BATCH = 10_000
# A counterpart may be dated some days before or after what it belongs to.
MARGIN = timedelta(days=3)


def collect(window: Window, say: Say) -> None:
    """Movements of every provider and entries of the ERP. Raises NotListed, ErpUnknown, ErpRefused.

    The provider's account bears its name: its settlement files must be declared for the same one.
    """
    for name in settings.PAYMENT_PROVIDERS:
        listed = provider(name).movements(window.start - MARGIN, window.end + MARGIN)
        count = 0
        for batch in _batches(listed):
            _take_in(Source(f"{name} (list)"[:32], name, name), batch, window, first=count + 1)
            count += len(batch)
            say(f"{count} movements listed by {name}")
    listed_entries = erp().entries(window.first - MARGIN, window.last + MARGIN)
    count = 0
    for entries in _batches(entry for entry in listed_entries if entry.posted):
        keep_entries(entries)
        count += len(entries)
        say(f"{count} entries listed by the ERP")


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _take_in(source: Source, batch: list[Movement], window: Window, *, first: int) -> None:
    lines = (_line(number, movement) for number, movement in enumerate(batch, first))
    take_in(source, lines, name=f"{window.first} to {window.last}", by=importer())


def _line(number: int, movement: Movement) -> Line:
    return Line(
        number=number,
        line_id=movement.line_id,
        content=b"",
        kind=LineKind(movement.kind),
        refund=movement.refund,
        payment=movement.payment,
        operation=movement.operation,
        amount_minor=movement.amount_minor,
        currency=movement.currency,
        at=movement.at,
    )


@transaction.atomic
def keep_entries(entries: list[Entry]) -> None:
    """Keep posted entries. One that is listed otherwise than before is marked, not overwritten."""
    columns = (
        [entry.entry for entry in entries],
        [entry.reference for entry in entries],
        [entry.amount_minor for entry in entries],
        [entry.currency for entry in entries],
        [_day(entry) for entry in entries],
        [money.plain(entry.amount_minor, entry.currency) for entry in entries],
    )
    with connection.cursor() as cursor:
        cursor.execute(_KEEP, [timezone.now(), *columns])
        cursor.execute(_MARK, columns)


def _day(entry: Entry) -> str:
    if entry.posted_on is None:
        raise ErpUnknown(f"entry {entry.entry} is posted and has no date")
    return entry.posted_on.isoformat()


_LISTED = """
    unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::date[], %s::text[])
    AS listed (entry, reference, minor, currency, day, amount)
"""

_KEEP = f"""
    INSERT INTO reconciliation_erpentry (
        entry, reference, amount_minor, currency, posted_on, seen_at, listed_as
    )
    SELECT entry, reference, minor, currency, day, %s, '' FROM {_LISTED}
    ON CONFLICT (entry) DO NOTHING
"""  # noqa: S608 - our own words only

# Only rows that change are written: what became different, and what is as it was again.
_MARK = f"""
    UPDATE reconciliation_erpentry kept
    SET listed_as = judged.words, listed_minor = judged.minor
    FROM (
        SELECT before.id, listed.minor, CASE
                WHEN (before.reference, before.amount_minor, before.currency, before.posted_on)
                    = (listed.reference, listed.minor, listed.currency, listed.day)
                THEN ''
                ELSE concat_ws(' ', amount, listed.currency, 'for', listed.reference, 'on', day)
            END AS words
        FROM {_LISTED}
        JOIN reconciliation_erpentry before ON before.entry = listed.entry
    ) judged
    WHERE kept.id = judged.id AND kept.listed_as <> judged.words
"""  # noqa: S608 - our own words only
