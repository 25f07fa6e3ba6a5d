"""One pass over everything that is due: in money, and in books.

The two are apart, so that a slow payment provider does not hold up the books.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from payments import recovery
from reconciliation import dispatch, mismatches, posting

# The two loops of `manage.py sweep --every`, by the names under which they say that they live.
MONEY_LOOP, BOOKS_LOOP = LOOPS = ("sweep", "books")

log = logging.getLogger(__name__)


def sweep(threads: int = 4) -> dict[str, int]:
    """One pass over both: look at every due payment and posting, apply parked events, and so on."""
    return recovery.sweep(threads) | sweep_books()


def sweep_books() -> dict[str, int]:
    """Open postings and take them on, tidy, open and close mismatches.

    A stage that fails does not stop the ones behind it.
    """
    due, late = dispatch.due_postings(), dispatch.due_tidying()
    return {
        "postings_opened": _alone(posting.open_postings),
        "posted_again": _alone(posting.post_paid_again),
        "postings_due": len(due),
        # One at a time: parallel postings only cost lock errors at the ERP.
        "erp_calls": sum(recovery.in_threads(dispatch.post, due, threads=1)),
        "late_drafts_deleted": sum(recovery.in_threads(dispatch.tidy, late, threads=1)),
        "mismatches_opened": _alone(mismatches.open_new),
        "mismatches_closed": _alone(mismatches.close_righted),
    }


def _alone(stage: Callable[[], int]) -> int:
    try:
        return stage()
    except Exception:
        log.exception("a stage of the sweep failed")
        return 0
