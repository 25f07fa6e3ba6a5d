"""What a worker process of a test does that is to be killed: one step for a given counterpart."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def pay(operation_id: int, provider: str, capabilities: dict[str, Any]) -> int:
    """Pay an operation through a provider declared as given; returns the calls made."""
    declared = import_module("payments.outcomes").Capabilities(**capabilities)
    import_module("payments.capabilities").BY_PROVIDER[provider] = declared
    calls: int = import_module("payments.dispatch").pay_operation(operation_id)
    return calls
