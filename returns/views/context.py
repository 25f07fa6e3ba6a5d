"""What every page knows: who is signed in and what they may do."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest

from returns.permissions import MAY, may


def desk(request: HttpRequest) -> dict[str, Any]:
    """Context for every template: the actions open to this user and the store's time zone."""
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return {"allowed": frozenset(), "store_time_zone": settings.STORE_TIME_ZONE}
    return {
        "allowed": frozenset(action for action in MAY if may(user, action)),
        "store_time_zone": settings.STORE_TIME_ZONE,
    }
