"""The one primary action of each state: shared by pages, API and tests."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from returns.states import OperationState


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
