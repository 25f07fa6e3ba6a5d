"""One pass over everything that is due, in money and in books."""

from __future__ import annotations

from payments import recovery
from reconciliation import dispatch, mismatches, posting


def sweep(threads: int = 4) -> dict[str, int]:
    """Look at every due payment and posting, apply parked events, open and close mismatches."""
    report = recovery.sweep(threads)
    report["postings_opened"] = posting.open_postings()
    report["posted_again"] = posting.post_paid_again()
    due = dispatch.due_postings()
    report["postings_due"] = len(due)
    # One at a time: parallel postings only cost lock errors at the ERP.
    report["erp_calls"] = sum(recovery.in_threads(dispatch.post, due, threads=1))
    late = dispatch.due_tidying()
    report["late_drafts_deleted"] = sum(recovery.in_threads(dispatch.tidy, late, threads=1))
    report["mismatches_opened"] = mismatches.open_new()
    report["mismatches_closed"] = mismatches.close_righted()
    return report
