"""What comes next for a return, in the same words on pages and in the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from returns.destinations import BY_HAND
from returns.states import OperationState, TaskState

if TYPE_CHECKING:
    from returns.queries import OperationRow


@dataclass(frozen=True)
class NextStep:
    """What comes next: the verb (None: nobody's hand is needed), its words, who, which key."""

    verb: str | None
    label: str | Promise
    permission: str | None = None
    shortcut: str = ""


NEXT_STEPS: dict[str, NextStep] = {
    OperationState.RECEIVED: NextStep("inspect", _("Inspect the goods"), "inspect", "i"),
    OperationState.INSPECTED: NextStep("approve", _("A manager decides"), "approve", "a"),
    OperationState.APPROVED: NextStep(
        "approve", _("A manager approves the payment"), "approve", "a"
    ),
    OperationState.RESERVED: NextStep(None, _("The payment is on its way; nothing to do")),
    OperationState.PAID: NextStep(None, _("Paid; the books follow by themselves")),
    OperationState.POSTED: NextStep(None, _("Done: paid and in the books")),
    OperationState.REJECTED: NextStep(None, _("Rejected; the goods may be returned again")),
    OperationState.CANCELLED: NextStep(None, _("Withdrawn; the goods may be returned again")),
}
"""What comes next as long as nothing out of the ordinary has happened."""

NOTHING_TO_PAY = NextStep(
    "reject", _("Nothing is left to pay back: reject it or withdraw it"), "reject", "r"
)
STILL_OWED = NextStep(
    "approve", _("The last payment did not work; a manager approves it again"), "approve", "a"
)
CONFIRM_HAND_OVER = NextStep(
    "hand_over", _("The hand-over has begun: confirm it or give it up"), "hand_over"
)
HAND_OVER = NextStep("hand_over", _("Hand the money over"), "hand_over")
FINANCE_FIRST = NextStep(
    "resolve_mismatch",
    _("Finance must look first: the customer may have the money already"),
    "resolve_mismatch",
)
STUCK = NextStep("ask_provider", _("A person must look at the payment"), "ask_provider")
IN_DOUBT = NextStep(None, _("The provider is being asked what became of the payment"))

MAY_HAVE_THE_MONEY = frozenset(
    {
        *("paid_after_refusal", "more_than_one_payment", "reference_not_ours"),
        *("refunded_elsewhere", "charged_back"),
    }
)
"""Words on an earlier payment that forbid another one."""

# The first that is true of any payment is said: what waits for a hand before what only waits.
_BY_PAYMENT = (
    (True, TaskState.SENDING, CONFIRM_HAND_OVER),
    (True, TaskState.PENDING, HAND_OVER),
    (False, TaskState.STUCK, STUCK),
    (False, TaskState.UNKNOWN, IN_DOUBT),
)


def next_step_of(operation: OperationRow) -> NextStep:
    """What comes next for this operation, from its payments and what is left of its order.

    Needs `worth_minor` and reads `payments`; prefetch them where there are many operations.
    """
    if operation.state == OperationState.INSPECTED and most_minor(operation) <= 0:
        return NOTHING_TO_PAY
    words = {task.attention for task in operation.payments.all()}
    if operation.state == OperationState.APPROVED and words & MAY_HAVE_THE_MONEY:
        return FINANCE_FIRST
    if operation.state == OperationState.APPROVED and failed_payments(operation):
        return STILL_OWED
    if operation.state == OperationState.RESERVED:
        standing = {(task.provider == BY_HAND, task.state) for task in _last_round(operation)}
        for by_hand, state, step in _BY_PAYMENT:
            if (by_hand, state) in standing:
                return step
    return NEXT_STEPS[operation.state]


def most_minor(operation: OperationRow) -> int:
    """The most that can be approved now, minor units: its worth or what is owed, while it lasts."""
    owed = operation.worth_minor if operation.amount_minor is None else operation.outstanding_minor
    return min(owed, operation.order.balance.remaining_minor)


def failed_payments(operation: OperationRow) -> list[Any]:
    """The payments of the last round that were declined or came back."""
    failed = (TaskState.DECLINED, TaskState.RETURNED)
    return [task for task in _last_round(operation) if task.state in failed]


def _last_round(operation: OperationRow) -> list[Any]:
    return [task for task in operation.payments.all() if task.generation == operation.pay_rounds]
