"""What the money queue calls. A message is a nudge; the payment rows say what is due."""

from __future__ import annotations

import pghistory

from payments import dispatch


def pay_operation(operation_id: int) -> int:
    """Take every payment of an operation as far as it goes now."""
    with pghistory.context(task="pay_operation", operation=operation_id):
        return dispatch.pay_operation(operation_id)
