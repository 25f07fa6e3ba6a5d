"""Everything the page of a return shows to one user: what stands there and what can be done."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.translation import gettext as _

from returns.closing import refuse_own_work
from returns.destinations import BY_HAND, first_fit
from returns.errors import NotAllowed
from returns.forms import ApprovalForm, InspectionForm, RejectionForm, WithdrawalForm
from returns.models import OperationEvent, OrderBalance, Tender
from returns.next_steps import NextStep, failed_payments, most_minor, next_step_of
from returns.permissions import may
from returns.states import ENDED, OPEN, OperationState, TaskState
from returns.wording import MONEY_VERBS, TROUBLE_VERBS, details_of, of_verb, only_for
from returns.worklists import tenders_of

if TYPE_CHECKING:
    from returns.queries import OperationRow

_STEPS = [state for state in OperationState if state not in ENDED]
_BY_ITSELF = (OperationState.RESERVED, OperationState.PAID)
_IN_HAND = (TaskState.PENDING, TaskState.SENDING)


@dataclass(frozen=True)
class Proposed:
    """What approving an amount would mean; minor units."""

    amount_minor: int
    currency: str
    balance: OrderBalance
    tenders: list[Tender]

    @property
    def parts(self) -> list[tuple[Tender, int]]:
        left = [tender.balance.remaining_minor for tender in self.tenders]
        shares = first_fit(self.amount_minor, left)
        return [(t, part) for t, part in zip(self.tenders, shares, strict=True) if part]

    @property
    def destination(self) -> str:
        """Where the money goes: "card ending 4242 and gift card"."""
        return _(" and ").join(str(tender) for tender, _part in self.parts)

    @property
    def remaining_after_minor(self) -> int:
        return self.balance.remaining_minor - self.amount_minor


@dataclass
class ReturnPage:
    """Everything the page shows about one return to one user."""

    operation: OperationRow
    user: User
    kept: dict[str, str] = field(default_factory=dict)
    # A form that was refused stands on the page as it was typed.
    refused: dict[str, forms.Form] = field(default_factory=dict)
    money_only: bool = False

    @cached_property
    def tenders(self) -> list[Tender]:
        return tenders_of(self.operation.order_id)

    @property
    def balance(self) -> OrderBalance:
        return self.operation.order.balance

    @property
    def step(self) -> NextStep:
        return next_step_of(self.operation)

    @property
    def heading(self) -> str:
        """What comes next, in words."""
        return str(self.step.label)

    @property
    def by_hand(self) -> list[Any]:
        """The payments of a reserved return that a person still has to hand over."""
        if self.operation.state != OperationState.RESERVED:
            return []
        return [t for t in self.payments if t.provider == BY_HAND and t.state in _IN_HAND]

    @property
    def hand_over_blocked(self) -> str:
        return only_for("hand_over")

    @property
    def deciding(self) -> bool:
        """Whether the amount field stands on the page, with the balance beside it."""
        approvable = 0 < self.amount_minor <= most_minor(self.operation)
        return self.step.verb == "approve" and not self.blocked and approvable

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The way of a return, each step with how it stands: done, now or to come."""
        ended = self.operation.state in ENDED
        at = -1 if ended else _STEPS.index(OperationState(self.operation.state))
        last = len(_STEPS) - 1
        looks = ["done" if i < at or i == at == last else "" for i in range(len(_STEPS))]
        if not ended and at != last:
            looks[at] = "now"
        steps = [(str(state.label), look) for state, look in zip(_STEPS, looks, strict=True)]
        return [(self.operation.get_state_display(), "ended")] if ended else steps

    @cached_property
    def own_work(self) -> str:
        """Why this user may not decide here, because they took part; empty otherwise."""
        try:
            refuse_own_work(self.operation, self.user)
        except NotAllowed as error:
            return error.detail
        return ""

    @property
    def blocked(self) -> str:
        """Why the state's one action is not this user's to take; empty when it is."""
        step = self.step
        if step.permission and not may(self.user, step.permission):
            return only_for(step.permission)
        if step.verb == "approve":
            return self.own_work or self._agreed_already
        return ""

    @property
    def reject_blocked(self) -> str:
        return self.own_work if may(self.user, "reject") else only_for("reject")

    @property
    def withdraw_blocked(self) -> str:
        return "" if may(self.user, "withdraw") else only_for("withdraw")

    @property
    def closable(self) -> bool:
        """Whether the return can still end without money."""
        return self.operation.state in OPEN and not self.operation.refunded_minor

    @property
    def nothing_to_pay(self) -> bool:
        """Whether ending the return is all that can be done about it."""
        return self.step.verb == "reject"

    @cached_property
    def agreed(self) -> list[Any]:
        """The approvals of the round that still needs another person's."""
        if self.operation.state != OperationState.APPROVED:
            return []
        round_ = self.operation.pay_rounds + 1
        return [a for a in self.operation.approvals.all() if a.generation == round_]

    @property
    def _agreed_already(self) -> str:
        if any(approval.approved_by_id == self.user.pk for approval in self.agreed):
            return _("You have approved this. A second manager has to agree.")
        return ""

    @property
    def amount_minor(self) -> int:
        """What this refund comes to: as approved and still owed, or as much as can be proposed."""
        if self.operation.amount_minor is not None:
            return self.operation.outstanding_minor
        return most_minor(self.operation)

    @property
    def proposed(self) -> Proposed:
        """The refund as it stands in the form: as typed where that was understood."""
        form = self.refused.get("approve")
        typed_minor = form.cleaned_data.get("amount") if form else None
        return Proposed(
            typed_minor or self.amount_minor, self.operation.currency, self.balance, self.tenders
        )

    @property
    def complaints(self) -> list[str]:
        """What is wrong with the amount that was typed; no button names such an amount."""
        form = self.refused.get("approve")
        return [str(error) for error in form.errors.get("amount", ())] if form else []

    @property
    def read_back(self) -> bool:
        """Whether an amount was understood and waits for the button that names it."""
        form = self.refused.get("approve")
        return form is not None and not form.errors

    @property
    def inspection_form(self) -> forms.Form:
        kept = {"note": self.kept.get("note", "")}
        return self.refused.get("inspect") or InspectionForm(self.operation, initial=kept)

    @property
    def approval_form(self) -> forms.Form:
        form = self.refused.get("approve") or self.new_approval_form()
        # While an amount is being typed, the button follows it.
        form.fields["amount"].widget.attrs |= {
            "hx-get": reverse("read_back", args=[self.operation.reference]),
            "hx-trigger": "input changed delay:250ms",
            "hx-target": "#send",
            "hx-select": "",
            "hx-sync": "this:replace",
        }
        return form

    def new_approval_form(self, data: Any = None) -> ApprovalForm:
        return ApprovalForm(
            self.operation,
            data,
            amount_minor=self.amount_minor,
            most_minor=most_minor(self.operation),
            remaining_minor=self.balance.remaining_minor,
            initial={"note": self.kept.get("note", "")},
        )

    @property
    def rejection_form(self) -> forms.Form:
        kept = {"reason": self.kept.get("reason", "")}
        return self.refused.get("reject") or RejectionForm(
            self.operation, initial=kept, auto_id="reject-%s"
        )

    @property
    def withdrawal_form(self) -> forms.Form:
        return self.refused.get("withdraw") or WithdrawalForm(self.operation, auto_id="withdraw-%s")

    @property
    def payments(self) -> list[Any]:
        """The newest round of paying last."""
        return sorted(self.operation.payments.all(), key=lambda task: task.pk)

    @property
    def failed(self) -> list[Any]:
        """What did not work or came back, where the rest is to be approved again."""
        approvable = self.operation.state == OperationState.APPROVED
        return failed_payments(self.operation) if approvable else []

    @property
    def posting(self) -> Any:
        return getattr(self.operation, "posting", None)

    @property
    def timeline(self) -> list[dict[str, Any]]:
        return [
            _line(event)
            for event in self.operation.events.all()
            if not self.money_only or event.verb in MONEY_VERBS
        ]

    @property
    def moves_by_itself(self) -> bool:
        """Whether something will change without anybody's hand."""
        return self.operation.state in _BY_ITSELF

    @property
    def follows(self) -> bool:
        """Whether the page keeps looking: something, or somebody elsewhere, may change it."""
        return self.moves_by_itself or self.operation.state in OPEN

    @property
    def view_token(self) -> str:
        """Changes with everything that can change while nobody touches the return."""
        moving = [(row.state, row.attention, row.provider_refund) for row in self.payments]
        posting = self.posting and (self.posting.state, self.posting.entry)
        seen = (self.operation.version, len(self.operation.events.all()), moving, posting)
        return sha256(repr(seen).encode()).hexdigest()[:16]


def _line(event: OperationEvent) -> dict[str, Any]:
    facts = event.facts
    return {
        "event": event,
        "words": of_verb(event.verb),
        "amount_minor": facts.get("amount_minor"),
        "states": (event.from_state, event.to_state) if event.to_state else None,
        "details": details_of(facts),
        "answer": facts.get("answer", "") if event.verb in TROUBLE_VERBS else "",
        "second": facts.get("second_approval_needed", False),
        "accepted": facts.get("accepted"),
        "rejected": facts.get("rejected"),
        "channel": facts.get("channel", ""),
    }
