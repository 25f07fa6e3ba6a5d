"""What waits for whom: the lists on the desk and in the inboxes. Constant in their statements."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet

from returns.models import IntakeMessage, OperationEvent, Tender
from returns.queries import key_of, operations
from returns.states import ENDED, OperationState

if TYPE_CHECKING:
    from returns.queries import OperationRow

UNFINISHED = frozenset(OperationState.values) - ENDED - {OperationState.POSTED}
"""Somebody or something still has to do something about these."""


def _took_part(user: User) -> Q:
    """Operations a user took in, joined or inspected; nobody decides about their own work."""
    joined = IntakeMessage.objects.filter(operation=OuterRef("pk"), submitted_by=user)
    return Q(taken_in_by=user) | Q(Exists(joined)) | Q(inspection__inspected_by=user)


def mine_unfinished(user: User) -> QuerySet[OperationRow]:
    """The user's own returns that still need something, oldest first."""
    return operations().filter(_took_part(user), state__in=sorted(UNFINISHED))


def others_to_inspect(user: User) -> QuerySet[OperationRow]:
    """Goods taken in by others, or through other channels, that nobody has inspected yet."""
    return operations(state=OperationState.RECEIVED).exclude(_took_part(user))


def _to_decide() -> QuerySet[OperationRow]:
    return operations().filter(state__in=[OperationState.INSPECTED, OperationState.APPROVED])


def to_decide_by(user: User) -> QuerySet[OperationRow]:
    """What waits for a decision that this manager may take, oldest first."""
    return _to_decide().exclude(_took_part(user))


def to_decide_by_others(user: User) -> QuerySet[OperationRow]:
    """What waits for a decision and was taken in, joined or inspected by this manager."""
    return _to_decide().filter(_took_part(user))


def decided_by(user: User, since: datetime) -> QuerySet[OperationRow]:
    """What a user approved or rejected since then, oldest first."""
    decision = OperationEvent.objects.filter(
        operation=OuterRef("pk"), by=user, verb__in=["approve", "reject"], at__gte=since
    )
    return operations().filter(Exists(decision))


def tenders_of(order_id: int) -> list[Tender]:
    """The tenders of an order with their balances, in the order they are drawn on."""
    return list(Tender.objects.filter(order=order_id).select_related("balance").order_by("pk"))


def last_change_of(reference: str) -> OperationEvent | None:
    """The newest line of a return's timeline, with who wrote it."""
    key = key_of(reference)
    events = OperationEvent.objects.select_related("by", "operation")
    return events.filter(operation__operation_key=key).order_by("-pk").first() if key else None
