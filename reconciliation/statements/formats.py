"""The declaration of a settlement file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timezone
from enum import StrEnum


class LineKind(StrEnum):
    """What a line says has happened. Only refunds and what undoes or doubles them are kept."""

    REFUND = "refund"
    REFUND_RETURNED = "refund_returned"
    CHARGEBACK = "chargeback"
    CHARGEBACK_REVERSED = "chargeback_reversed"
    OTHER = "other"


@dataclass(frozen=True)
class Signed:
    """One column whose sign says which way the money went."""

    column: str
    out_is_negative: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True)
class TwoColumns:
    """One column for money that left us and one for money that came; one of them is empty."""

    out: str
    came: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.out, self.came)


@dataclass(frozen=True)
class Format:
    """How one kind of file is written. Every word of its kind column must have a meaning here.

    `zone` holds for moments that name none; `zone_column` names a column with abbreviations, which
    `zones` explains. Without a `line_id` column a line is known by its content and its occurrence.
    """

    provider: str
    kinds: Mapping[str, LineKind]
    kind: str
    amount: Signed | TwoColumns
    currency: str
    at: str
    # ISO 8601 where empty; otherwise a pattern of `datetime.strptime`.
    at_pattern: str = ""
    zone: str = "UTC"
    zone_column: str = ""
    zones: Mapping[str, timezone] = field(default_factory=dict)
    refund: str = ""
    payment: str = ""
    operation: str = ""
    line_id: str = ""
    # Columns that a report may lack, such as metadata that was not chosen for it.
    optional: frozenset[str] = frozenset()
    encoding: str = "utf-8-sig"
    delimiter: str = ","
    decimal_mark: str = "."
    grouping: str = ""
    # Some files begin with a preamble: the header is looked for in this many lines.
    header_within: int = 20

    def columns(self) -> set[str]:
        """Every column that must be there."""
        named = {self.kind, self.currency, self.at, self.zone_column, *self.amount.columns}
        named |= {self.refund, self.payment, self.operation, self.line_id}
        return named - self.optional - {""}
