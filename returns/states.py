"""Every state and every edge, written once.

The django-fsm decorators, the database triggers, the tests and the picture in the README are all
made from the tables in this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class OperationState(TextChoices):
    """Where one decision about returning money stands."""

    RECEIVED = "received", _("received")
    INSPECTED = "inspected", _("inspected")
    APPROVED = "approved", _("approved")
    RESERVED = "reserved", _("reserved")
    PAID = "paid", _("paid")
    POSTED = "posted", _("posted")
    REJECTED = "rejected", _("rejected")
    CANCELLED = "cancelled", _("cancelled")


class TaskState(TextChoices):
    """Where one outbound intention (a payment, an ERP posting) stands."""

    PENDING = "pending", _("waiting")
    SENDING = "sending", _("being sent")
    UNKNOWN = "unknown", _("being checked")
    ACCEPTED = "accepted", _("at the provider")
    SUCCEEDED = "succeeded", _("paid")
    DECLINED = "declined", _("did not work, still owed")
    RETURNED = "returned", _("came back, still owed")
    STUCK = "stuck", _("a person must look")


class Edge(NamedTuple):
    """One verb of a state machine: from any of `sources` to `target`."""

    verb: str
    sources: tuple[str, ...]
    target: str


_O = OperationState
OPERATION_EDGES: tuple[Edge, ...] = (
    Edge("inspect", (_O.RECEIVED,), _O.INSPECTED),
    Edge("approve", (_O.INSPECTED,), _O.APPROVED),
    Edge("reserve", (_O.APPROVED,), _O.RESERVED),
    Edge("settle", (_O.RESERVED,), _O.PAID),
    Edge("post", (_O.PAID,), _O.POSTED),
    Edge("reject", (_O.RECEIVED, _O.INSPECTED, _O.APPROVED), _O.REJECTED),
    Edge("withdraw", (_O.RECEIVED, _O.INSPECTED, _O.APPROVED), _O.CANCELLED),
    Edge("release", (_O.RESERVED,), _O.APPROVED),
    Edge("reopen", (_O.PAID, _O.POSTED), _O.APPROVED),
)

_T = TaskState
TASK_EDGES: tuple[Edge, ...] = (
    Edge("send", (_T.PENDING, _T.UNKNOWN), _T.SENDING),
    Edge("defer", (_T.SENDING,), _T.PENDING),
    Edge("doubt", (_T.SENDING, _T.ACCEPTED, _T.STUCK), _T.UNKNOWN),
    # From `pending` too: after a restore from backup the provider may know of a payment first.
    Edge("accept", (_T.PENDING, _T.SENDING, _T.UNKNOWN, _T.STUCK), _T.ACCEPTED),
    Edge("succeed", (_T.PENDING, _T.SENDING, _T.UNKNOWN, _T.ACCEPTED, _T.STUCK), _T.SUCCEEDED),
    # From `pending` only for what a person was to hand over, and will not.
    Edge("decline", (_T.PENDING, _T.SENDING, _T.UNKNOWN, _T.ACCEPTED, _T.STUCK), _T.DECLINED),
    Edge("give_back", (_T.SUCCEEDED,), _T.RETURNED),
    Edge("park", (_T.PENDING, _T.SENDING, _T.UNKNOWN, _T.ACCEPTED), _T.STUCK),
)

ENDED: frozenset[str] = frozenset({_O.REJECTED, _O.CANCELLED})
"""Operations in these states hold no claims: the goods may be returned again."""

OPEN: frozenset[str] = frozenset({_O.RECEIVED, _O.INSPECTED, _O.APPROVED})
"""Operations whose money has not been reserved; they can still be rejected or withdrawn."""

TASK_FINAL: frozenset[str] = frozenset({_T.SUCCEEDED, _T.DECLINED, _T.RETURNED})
"""Tasks that need no further look."""


def edge(edges: Iterable[Edge], verb: str) -> Edge:
    """The one edge of this name. Raises KeyError for a name that is not in the table."""
    for candidate in edges:
        if candidate.verb == verb:
            return candidate
    raise KeyError(verb)


def pairs(edges: Iterable[Edge]) -> list[tuple[str, str]]:
    """Every (from, to) pair of a table, as the database triggers want them."""
    return [(str(source), str(e.target)) for e in edges for source in e.sources]


def targets_from(edges: Sequence[Edge], state: str) -> list[str]:
    """The verbs that are possible from a state."""
    return [e.verb for e in edges if state in e.sources]
