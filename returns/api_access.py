"""Who asks, whether they may, and which return they mean."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import User
from rest_framework.request import Request

from returns import queries
from returns.errors import Missing
from returns.permissions import require
from returns.timeline import refusals_are_recorded


def person(request: Request) -> User:
    """The account behind the token."""
    return cast(User, request.user)


def require_on_record(action: str, *, by: User, **about: Any) -> None:
    """Raises NotAllowed before a request is even read; the refused attempt is recorded."""

    @refusals_are_recorded(action)
    def ask(*, by: User, **_about: Any) -> None:
        require(by, action)

    ask(by=by, **about)


def key_of_return(name: str) -> UUID:
    """The permanent key of the return called this. Raises Missing (unknown_return)."""
    key = queries.key_of(name)
    if key is None:
        raise Missing(f"There is no return {name}.", code="unknown_return")
    return key


def require_for_return(action: str, *, by: User, name: str) -> UUID:
    """The key of the return called this, for whoever may do this to it.

    Raises NotAllowed, on record, before Missing (unknown_return).
    """
    require_on_record(action, by=by, operation_key=queries.key_of(name))
    return key_of_return(name)
