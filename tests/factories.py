"""Orders and operations as the product itself makes them: every factory calls the verbs.

Amounts are minor units. A function named after a state takes an operation to that state on the
ordinary way and returns it as stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import Group, User
from factory.base import Factory
from factory.django import DjangoModelFactory

from payments import dispatch, handover
from payments.approval import approve
from payments.capabilities import capabilities_of
from payments.models import PaymentTask
from reconciliation import dispatch as books
from reconciliation.posting import open_postings
from returns import inspection, intake, ordering
from returns.inspection import UnitFound
from returns.models import Claim, Order, RefundOperation
from returns.order_facts import LineFacts, OrderFacts, PastRefund, TenderFacts
from returns.return_request import Goodwill, Item, ReturnRequest

PLACED_AT = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)
_numbers = itertools.count(1)


class UserFactory(DjangoModelFactory[User]):
    """The user of a name, in the given `roles`; a group that a flush took away is made again."""

    class Meta:
        model = User
        django_get_or_create = ("username",)

    @classmethod
    def _create(
        cls, model_class: type[User], *args: Any, roles: Sequence[str] = (), **kwargs: Any
    ) -> User:
        user: User = super()._create(  # type: ignore[no-untyped-call]
            model_class, *args, **kwargs
        )
        user.groups.set([Group.objects.get_or_create(name=name)[0] for name in roles])
        return user


def person(username: str, *roles: str) -> User:
    """The user of this name, in these groups."""
    return UserFactory.create(username=username, roles=roles)


def desk() -> User:
    return person("desk", "desk")


def manager() -> User:
    return person("manager", "manager")


def second_manager() -> User:
    return person("second-manager", "manager")


def finance() -> User:
    return person("finance", "finance")


def integration() -> User:
    return person("integration", "integration")


def line(
    line_id: str = "shirt", price_minor: int = 10_000, quantity: int = 1, **other: Any
) -> LineFacts:
    """A line as sold, `price_minor` a unit."""
    return LineFacts(
        line_id=line_id,
        sku=f"SKU-{line_id}",
        description=line_id.capitalize(),
        quantity=quantity,
        unit_price_minor=price_minor,
        **other,
    )


def card(amount_minor: int, tender_id: str = "card") -> TenderFacts:
    """A card payment at the sandbox provider."""
    return TenderFacts(tender_id, "stripe", f"pi_{next(_numbers)}", amount_minor, "Card")


def cash(amount_minor: int, tender_id: str = "cash") -> TenderFacts:
    """Money that a person hands back."""
    return TenderFacts(tender_id, "manual", f"till-{next(_numbers)}", amount_minor, "Cash")


def order_facts(
    *,
    lines: Sequence[LineFacts] = (),
    tenders: Sequence[TenderFacts] | None = None,
    past_refunds: Sequence[PastRefund] = (),
    **other: Any,
) -> OrderFacts:
    """An order of one shirt for 100.00 USD paid by card, or what is given instead."""
    unpaid = OrderFacts(
        **{"number": f"W{next(_numbers):07}", "currency": "USD", "placed_at": PLACED_AT, **other},
        lines=tuple(lines or [line()]),
        tenders=(),
        past_refunds=tuple(past_refunds),
    )
    paid_with = [card(unpaid.total_minor)] if tenders is None else tenders
    return OrderFacts(**{**vars(unpaid), "tenders": tuple(paid_with)})


class OrderFactory(Factory[Order]):
    """An order confirmed by the shop's integration; takes what `order_facts` takes."""

    class Meta:
        model = Order

    @classmethod
    def _create(cls, model_class: type[Order], *args: Any, **kwargs: Any) -> Order:  # noqa: ARG003
        facts = order_facts(**kwargs)
        order, _ = ordering.confirm_order(number=facts.number, facts=facts, by=integration())
        return order


def request_for(order: Order, **other: Any) -> ReturnRequest:
    """A counter visit that brings one of the first line, or what is given instead."""
    if not {"items", "shipping", "goodwill"} & set(other):
        other["items"] = (Item(order.lines.order_by("pk")[0].line_id, quantity=1),)
    return ReturnRequest(
        **{
            "channel": "counter",
            "message_id": f"message-{next(_numbers)}",
            "order": order.number,
            **other,
        }
    )


def goodwill(amount: str, case: str | None = None) -> Goodwill:
    """An amount in major units under a case of its own."""
    return Goodwill(case or f"case-{next(_numbers)}", amount)


def received(
    order: Order | None = None, *, by: User | None = None, **request: Any
) -> RefundOperation:
    """A return taken in by the desk; takes what `request_for` takes."""
    asked = request_for(order or OrderFactory.create(), **request)
    return fresh(intake.open_or_join(request=asked, by=by or desk()).operation)


def units(operation: RefundOperation) -> list[UnitFound]:
    """Every unit of goods that a return still covers."""
    goods = operation.claims.filter(kind=Claim.Kind.LINE, live=True).select_related("line")
    return [
        UnitFound(claim.line.line_id, claim.unit)
        for claim in goods.order_by("pk")
        if claim.line and claim.unit
    ]


def inspected(
    order: Order | None = None, *, rejected: Sequence[UnitFound] = (), **request: Any
) -> RefundOperation:
    """A return whose units were found good, but for the rejected ones."""
    operation = received(order, **request)
    bad = [(found.line, found.unit) for found in rejected]
    good = [found for found in units(operation) if (found.line, found.unit) not in bad]
    inspection.inspect(
        operation_key=operation.operation_key, by=desk(), accepted=good, rejected=rejected
    )
    return fresh(operation)


def approved_by(
    by: User,
    operation: RefundOperation,
    amount_minor: int | None = None,
    tenders: Mapping[str, int] | None = None,
) -> RefundOperation:
    """What approving makes of an operation: all that is owed, or the given amount."""
    approve(
        operation_key=operation.operation_key,
        by=by,
        amount_minor=operation.outstanding_minor or worth_minor(operation)
        if amount_minor is None
        else amount_minor,
        tenders=tenders,
    )
    return fresh(operation)


def reserved(
    order: Order | None = None,
    *,
    amount_minor: int | None = None,
    tenders: Mapping[str, int] | None = None,
    **request: Any,
) -> RefundOperation:
    """A return that a manager approved, with its money reserved."""
    return approved_by(manager(), inspected(order, **request), amount_minor, tenders)


def pay(operation: RefundOperation) -> RefundOperation:
    """Pay what is due: cards through the provider, everything else by hand."""
    for task in PaymentTask.objects.filter(operation=operation).order_by("pk"):
        if capabilities_of(task.provider).by_person:
            hand_over(task)
        else:
            dispatch.pay(task.pk)
    return fresh(operation)


def hand_over(task: PaymentTask) -> PaymentTask:
    """The desk hands the money over and notes the receipt."""
    handover.start(task_id=task.pk, by=desk())
    return handover.confirm(task_id=task.pk, by=desk(), reference=f"receipt-{task.pk}")


def paid(order: Order | None = None, **decision: Any) -> RefundOperation:
    """A return whose money has gone back; takes what `reserved` takes."""
    return pay(reserved(order, **decision))


def post(operation: RefundOperation) -> RefundOperation:
    """Write the credit of a paid operation in the ERP."""
    open_postings()
    books.post(operation.posting.pk)
    return fresh(operation)


def posted(order: Order | None = None, **decision: Any) -> RefundOperation:
    """A return whose money has gone back and whose credit is posted."""
    return post(paid(order, **decision))


def fresh(operation: RefundOperation) -> RefundOperation:
    """The operation as it is stored now."""
    return RefundOperation.objects.select_related("order__balance").get(pk=operation.pk)


def worth_minor(operation: RefundOperation) -> int:
    """What the operation's live claims are worth, minor units."""
    return sum(claim.amount_minor for claim in operation.claims.filter(live=True))
