"""One verb for many mismatches: each by itself, so that one that is refused stops no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.utils.translation import gettext

from reconciliation.models import Mismatch
from returns.errors import Invalid, RefundDeskError

# One press of a button does not keep a web worker longer than this takes.
MOST_AT_ONCE = 200

# Does it to one item and says what became of it.
Does = Callable[[Mismatch], str]


@dataclass(frozen=True)
class Result:
    """What became of one item, in words."""

    mismatch: Mismatch
    done: bool
    words: str


def each(mismatches: Iterable[Mismatch], does: Does) -> list[Result]:
    """The result of every row, in the order of the queue."""
    return [_one(mismatch, does) for mismatch in mismatches]


def _one(mismatch: Mismatch, does: Does) -> Result:
    try:
        return Result(mismatch, True, does(mismatch))
    except Invalid as error:
        return Result(mismatch, False, " ".join(map(str, error.fields.values())))
    except RefundDeskError as error:
        return Result(mismatch, False, error.detail)


def decided(mismatch: Mismatch) -> str:
    """What a resolution has led to."""
    if mismatch.is_open:
        return gettext("Proposed. Above the limit of one person: somebody else must confirm it.")
    return gettext("Closed: %(how)s.") % {"how": mismatch.get_resolution_display()}
