"""What every page knows: who is signed in and what they may do."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest

from returns.permissions import MAY, may
from returns.views.session import THEME_COOKIE, THEMES


def desk(request: HttpRequest) -> dict[str, Any]:
    """Context for every template: the user's actions, the store's time zone, light or dark."""
    user = getattr(request, "user", None)
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "allowed": {action for action in MAY if may(user, action)}
        if isinstance(user, User)
        else set(),
        "store_time_zone": settings.STORE_TIME_ZONE,
        "theme": theme if theme in THEMES else THEMES[0],
    }
