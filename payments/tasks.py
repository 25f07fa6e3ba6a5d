"""What the money queue calls. A message is a nudge; the payment rows say what is due."""

from __future__ import annotations

import pghistory

from payments import batches, dispatch, recovery


def pay_operation(operation_id: int) -> int:
    """Take every payment of an operation as far as it goes now."""
    with pghistory.context(task="pay_operation", operation=operation_id):
        return dispatch.pay_operation(operation_id)


def approve_batch(batch_id: int) -> int:
    """Carry out the decisions of a batch that wait; returns how many were approved."""
    with pghistory.context(task="approve_batch", batch=batch_id):
        waiting = batches.waiting_items(batch_id)
        return sum(recovery.in_threads(batches.carry_out, waiting, threads=1))
