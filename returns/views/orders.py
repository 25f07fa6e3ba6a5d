"""An order: what of it is already coming back, and taking more in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from uuid import UUID, uuid4

from django.contrib import messages
from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from returns.claiming import live_claims
from returns.errors import Invalid, Missing, RefundDeskError
from returns.forms import MOST_BOXES, TakeInForm, compressed
from returns.intake import Taken, open_or_join
from returns.models import Channel, Claim, Order, RefundOperation
from returns.permissions import may
from returns.queries import LineUnits, order_by_number, units_of
from returns.states import OPEN
from returns.views.staff import page, same_page, user_of
from returns.wording import only_for


@dataclass(frozen=True)
class ComingBack:
    """A live operation on the order, the goods it covers, and whether these can be joined here."""

    operation: RefundOperation
    claims: list[Claim]
    token: UUID

    @property
    def joinable(self) -> bool:
        goodwill = any(claim.kind == Claim.Kind.GOODWILL for claim in self.claims)
        return self.operation.state in OPEN and not goodwill

    @property
    def shipping(self) -> bool:
        return any(claim.kind == Claim.Kind.SHIPPING for claim in self.claims)


@dataclass(frozen=True)
class Row:
    """A line as the form shows it: a box for each unit, or one count for a long line."""

    units: LineUnits
    chosen: frozenset[str]

    @property
    def counted(self) -> bool:
        return self.units.line.quantity > MOST_BOXES

    @property
    def free_ranges(self) -> str:
        return compressed(self.units.free)


@page("open_pages")
def order(request: HttpRequest, number: str) -> HttpResponse:
    """The order with every unit, and the form that takes the free ones in."""
    found = _order(number)
    if found.number != number:
        return redirect("order", number=found.number)
    return _shown(request, found, TakeInForm(order=found))


@page("take_in", back="order")
def take_in(request: HttpRequest, number: str) -> HttpResponse:
    """Open a return for the chosen units, or join the one that already covers exactly these."""
    found = _order(number)
    form = TakeInForm(request.POST, order=found)
    if not form.is_valid():
        return _shown(request, found, form, status=422)
    try:
        taken = open_or_join(request=form.request(Channel.COUNTER), by=user_of(request))
    except Invalid as error:
        for complaint in error.fields.values():
            form.add_error(None, complaint)
        return _shown(request, found, form, status=422)
    except Missing:
        raise
    except RefundDeskError as error:
        if error.status != 409:
            raise
        return _shown(request, found, form, refusal=error, status=409)
    messages.success(request, _said(taken))
    return redirect("return", reference=taken.operation.reference)


def _order(number: str) -> Order:
    found = order_by_number(number)
    if found is None:
        raise Missing(_("There is no order %(number)s.") % {"number": number})
    return found


def _shown(
    request: HttpRequest,
    found: Order,
    form: TakeInForm,
    *,
    refusal: RefundDeskError | None = None,
    status: int = 200,
) -> HttpResponse:
    user = user_of(request)
    coming_back = _coming_back(found)
    conflicting = {c["reference"] for c in refusal.facts.get("conflicts", ())} if refusal else set()
    context = {
        "order": found,
        "balance": found.balance,
        "form": form,
        # A refused form is a new message the next time it is sent.
        "token": uuid4() if refusal else form["token"].value(),
        "rows": [Row(units, frozenset(form.chosen)) for units in units_of(found)],
        "coming_back": coming_back,
        "shipping_in": next((c.operation for c in coming_back if c.shipping), None),
        "conflicting": [c for c in coming_back if c.operation.reference in conflicting],
        "refusal": refusal,
        "closed_because": _closed_because(found, may_take_in=may(user, "take_in")),
    }
    response = render(request, "order.html", context, status=status)
    return same_page(response) if form.is_bound else response


def _coming_back(found: Order) -> list[ComingBack]:
    claims = sorted(live_claims(found).values(), key=lambda claim: (claim.operation_id, claim.pk))
    prefetch_related_objects([claim.operation for claim in claims], "taken_in_by")
    return [
        ComingBack(group[0].operation, group, uuid4())
        for _pk, rows in groupby(claims, key=lambda claim: claim.operation_id)
        if (group := list(rows))
    ]


def _closed_because(found: Order, *, may_take_in: bool) -> str:
    """Why nothing can be taken in here now; empty when something can."""
    if not may_take_in:
        return only_for("take_in")
    if not found.delivered:
        return _("This order has not been delivered, so nothing of it can come back yet.")
    if found.balance.remaining_minor == 0:
        return _("Everything paid for this order has been refunded or is on its way.")
    return ""


def _said(taken: Taken) -> str:
    facts = {"reference": taken.operation.reference}
    if taken.replayed:
        return _("This form was sent before. It opened %(reference)s; nothing was done twice.") % (
            facts
        )
    if taken.joined:
        return _(
            "%(reference)s already covers exactly these goods. This visit was added to it."
        ) % (facts)
    return _("%(reference)s is open. Next: inspect the goods.") % facts
