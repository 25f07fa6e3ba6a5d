"""Read a settlement file through its format, line by line and in constant memory."""

from __future__ import annotations

import codecs
import csv
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO
from zoneinfo import ZoneInfo

from reconciliation.statements.figures import signed_minor
from reconciliation.statements.formats import Format, LineKind
from returns import money

# Nobody's reference is longer; a longer one shows that columns have shifted.
LONGEST_REFERENCE = 200
# What takes money out of our account; every other kept kind brings it back.
_OUT = frozenset({LineKind.REFUND, LineKind.CHARGEBACK})


class NotReadable(ValueError):
    """The file as a whole cannot be read; nothing of it may be used."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line about a refund. `amount_minor` left us; negative where it came back.

    `line_id` is the source's own number of the line, or empty; `content` tells lines apart that
    have none.
    """

    number: int
    line_id: str
    content: bytes
    kind: LineKind
    refund: str
    payment: str
    operation: str
    amount_minor: int
    currency: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that cannot be used, and why."""

    number: int
    reason: str


class _Unusable(ValueError):
    """This line cannot be used; the message says why."""


def read(file: IO[bytes], written: Format) -> Iterator[Line | Refused | None]:
    """The lines of a file: what is about refunds, what is refused, None for anything else.

    Raises NotReadable for a file without the declared header, without any row, or in another
    encoding.
    """
    text = codecs.iterdecode(file, written.encoding)
    table = csv.reader(text, delimiter=written.delimiter, strict=True)
    try:
        header = _header(itertools.islice(table, written.header_within), written)
        empty = True
        for cells in table:
            if any(cells):
                empty = False
                yield _line_or_refusal(table.line_num, cells, header, written)
    except UnicodeDecodeError as error:
        raise NotReadable(f"The file is not written in {written.encoding}: {error}.") from error
    except csv.Error as error:
        raise NotReadable(f"Line {table.line_num} is not part of a table: {error}.") from error
    if empty:
        raise NotReadable("The file has a header and no rows.")


def _header(first_lines: Iterable[list[str]], written: Format) -> dict[str, int]:
    """Where each column is. Raises NotReadable when no line has all that are declared."""
    needed = written.columns()
    for cells in first_lines:
        names = [cell.strip() for cell in cells]
        if needed <= set(names):
            twice = sorted(name for name in needed if names.count(name) > 1)
            if twice:
                raise NotReadable(f"The header names {', '.join(twice)} more than once.")
            return {name: place for place, name in enumerate(names)}
    raise NotReadable(f"No line near the top names all of: {', '.join(sorted(needed))}.")


def _line_or_refusal(
    number: int, cells: list[str], header: dict[str, int], written: Format
) -> Line | Refused | None:
    try:
        return _line(number, cells, header, written)
    except (_Unusable, money.NotMoney) as error:
        return Refused(number, str(error))


def _line(number: int, cells: list[str], header: dict[str, int], written: Format) -> Line | None:
    if len(cells) != len(header):
        raise _Unusable(f"{len(cells)} cells where the header has {len(header)}.")

    def cell(column: str) -> str:
        return cells[header[column]].strip() if column in header else ""

    kind = _kind(cell(written.kind), written)
    if kind is LineKind.OTHER:
        return None
    currency = cell(written.currency).upper()
    if not money.known(currency):
        raise _Unusable(f"“{currency}” is not a currency.")
    amounts = [cell(column) for column in written.amount.columns]
    return Line(
        number=number,
        line_id=_reference(cell(written.line_id)),
        content=hashlib.sha256("\x1f".join(cells).encode()).digest(),
        kind=kind,
        refund=_reference(cell(written.refund)),
        payment=_reference(cell(written.payment)),
        operation=_reference(cell(written.operation)),
        amount_minor=_went_the_right_way(signed_minor(amounts, currency, written), kind),
        currency=currency,
        at=_moment(cell(written.at), cell(written.zone_column), written),
    )


def _kind(word: str, written: Format) -> LineKind:
    try:
        return written.kinds[word]
    except KeyError:
        raise _Unusable(f"“{word}” is not a kind of line that this format declares.") from None


def _went_the_right_way(amount_minor: int, kind: LineKind) -> int:
    if amount_minor == 0 or (amount_minor > 0) != (kind in _OUT):
        raise _Unusable(f"The sign of the amount does not fit a {kind.value}.")
    return amount_minor


def _reference(text: str) -> str:
    if len(text) > LONGEST_REFERENCE or "\0" in text:
        raise _Unusable("A reference is too long or holds characters that none can.")
    return text


def _moment(text: str, zone: str, written: Format) -> datetime:
    try:
        if written.at_pattern:
            moment = datetime.strptime(text, written.at_pattern)  # noqa: DTZ007 - zone follows
        else:
            moment = datetime.fromisoformat(text)
    except ValueError:
        raise _Unusable(f"“{text}” is not a moment as this source writes it.") from None
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    if not written.zone_column:
        return moment.replace(tzinfo=ZoneInfo(written.zone)).astimezone(UTC)
    if zone not in written.zones:
        raise _Unusable(f"“{zone}” is not a time zone that this format declares.")
    return moment.replace(tzinfo=written.zones[zone]).astimezone(UTC)
