"""Who may do what: one table, asked by the verbs."""

from __future__ import annotations

from django.contrib.auth.models import User

from returns.errors import NotAllowed

DESK, MANAGER, FINANCE, ADMIN, INTEGRATION = "desk", "manager", "finance", "admin", "integration"
GROUPS = (DESK, MANAGER, FINANCE, ADMIN, INTEGRATION)

MAY: dict[str, frozenset[str]] = {
    # Pages are for people; programs have the API.
    "open_pages": frozenset({DESK, MANAGER, FINANCE, ADMIN}),
    "view": frozenset({DESK, MANAGER, FINANCE, ADMIN, INTEGRATION}),
    "confirm_order": frozenset({INTEGRATION, ADMIN}),
    "take_in": frozenset({DESK, MANAGER, INTEGRATION}),
    "inspect": frozenset({DESK, MANAGER}),
    "withdraw": frozenset({DESK, MANAGER, INTEGRATION}),
    "reject": frozenset({MANAGER}),
    "approve": frozenset({MANAGER}),
    "view_payments": frozenset({MANAGER, FINANCE, ADMIN}),
    "ask_provider": frozenset({MANAGER, FINANCE}),
    "declare_unpaid": frozenset({MANAGER, FINANCE}),
    "hand_over": frozenset({DESK, MANAGER, FINANCE}),
    "replay_event": frozenset({FINANCE, ADMIN}),
    "view_mismatches": frozenset({FINANCE, ADMIN}),
    "resolve_mismatch": frozenset({FINANCE, ADMIN}),
    "import_settlement": frozenset({FINANCE, ADMIN, INTEGRATION}),
    "reconcile": frozenset({FINANCE, ADMIN}),
}


def groups_of(user: User) -> frozenset[str]:
    """The names of a user's groups; read once per user object."""
    if not hasattr(user, "_group_names"):
        names = user.groups.values_list("name", flat=True) if user.is_active else ()
        user._group_names = frozenset(names)  # type: ignore[attr-defined]
    return user._group_names  # type: ignore[attr-defined, no-any-return]


def may(user: User, action: str) -> bool:
    """Whether one of the user's groups is allowed this action."""
    return bool(groups_of(user) & MAY[action])


def require(user: User, action: str) -> None:
    """Raises NotAllowed (code `role`) unless the user may do this."""
    if not may(user, action):
        allowed = ", ".join(sorted(MAY[action]))
        raise NotAllowed(f"This needs one of the roles: {allowed}.", code="role", action=action)
