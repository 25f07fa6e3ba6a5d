"""What of a mismatch can be tried once more or closed, and why not where it cannot."""

from __future__ import annotations

from payments import settlement
from payments.models import OutboundRow
from reconciliation.models import ErpPosting, Mismatch
from returns.states import TaskState


def posting_of(mismatch: Mismatch) -> ErpPosting | None:
    """The credit that an item is about, itself or by its operation."""
    if mismatch.posting is not None or mismatch.operation is None:
        return mismatch.posting
    return getattr(mismatch.operation, "posting", None)


def why_not_asked(mismatch: Mismatch) -> str:
    """Why the provider cannot be asked again, as a sentence; empty where it can."""
    task = mismatch.payment
    if task is None:
        return "This is about no payment of ours that the provider could be asked about."
    if settlement.may_be_asked_about(task):
        return ""
    return f"The payment is {task.get_state_display()}: there is nothing to ask the provider."


def why_not_posted(mismatch: Mismatch) -> str:
    """Why the credit cannot be posted again, as a sentence; empty where it can."""
    credit = posting_of(mismatch)
    if credit is None:
        return "No credit of ours is to be posted for this."
    if credit.state == TaskState.STUCK:
        return ""
    return f"The credit is {credit.get_state_display()}, not set aside: it needs no second try."


def why_not_closed(mismatch: Mismatch) -> str:
    """Why nobody can close this yet, as a sentence; empty where somebody can."""
    rows: list[OutboundRow | None] = [mismatch.payment, mismatch.posting]
    if not any(row is not None and row.state == TaskState.STUCK for row in rows):
        return ""
    return (
        "What this is about is still set aside. Have it looked at again, or decide that it "
        "has not been paid; then this closes."
    )
