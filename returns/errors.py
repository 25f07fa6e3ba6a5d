"""What the product says no with. Each error carries the facts a person or a program needs next."""

from __future__ import annotations

from typing import Any


class RefundDeskError(Exception):
    """A refused request: a stable `code`, one human sentence, and facts.

    `status` is the HTTP status that says the same to a program.
    """

    code = "refused"
    status = 409

    def __init__(self, detail: str, *, code: str | None = None, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.code
        self.facts = facts


class Invalid(RefundDeskError):
    """The request cannot be understood whole; `fields` maps a field to its complaints."""

    code = "invalid"
    status = 400

    def __init__(
        self, fields: dict[str, Any], detail: str = "Some fields need correcting."
    ) -> None:
        super().__init__(detail, fields=fields)
        self.fields = fields


class Missing(RefundDeskError):
    """What was named does not exist."""

    code = "not_found"
    status = 404


class NotAllowed(RefundDeskError):
    """This person may not do this; `code` is role, own_intake or over_limit."""

    code = "role"
    status = 403


class WrongState(RefundDeskError):
    """The operation is not in a state from which this is possible."""

    code = "wrong_state"


class Stale(RefundDeskError):
    """The person decided on figures or a version that have changed since."""

    code = "stale"


class UnitsClaimed(RefundDeskError):
    """Some of the goods belong to another live operation; `conflicts` names them."""

    code = "units_claimed"


class NothingRefundable(RefundDeskError):
    """The order has nothing left to give back, or was never delivered."""

    code = "nothing_refundable"


class InsufficientBalance(RefundDeskError):
    """Less is left than was asked for; `remaining` says how much, in major units."""

    code = "insufficient_balance"


class MessageChanged(RefundDeskError):
    """The same message id was delivered before with other content."""

    code = "message_changed"


class BatchChanged(RefundDeskError):
    """The same selection was sent before with other content."""

    code = "batch_changed"


class OrderChanged(RefundDeskError):
    """Facts that returns already rest on would change."""

    code = "order_changed"
