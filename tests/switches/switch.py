"""The switches: what each turns off, and how."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import uuid4

from django.db import models
from django.db.models import QuerySet

from payments import outbound, protocol
from payments.outcomes import Outcome
from payments.providers.base import PaymentOrder
from payments.providers.stripe import StripeProvider
from returns import locking
from tests.model.rules import Rule, Rules

Row = TypeVar("Row", bound=models.Model)

# Names the switch that is off in a process; its children inherit it.
VARIABLE = "SWITCHED_OFF"


@dataclass(frozen=True)
class Switch:
    """One rule, the tests that are about it, and how it is turned off in this process."""

    says: str
    tests: tuple[str, ...]
    turn_off: Callable[[], None]


def turn_off_from_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Turn off what the environment names, if it names anything."""
    if name := environment.get(VARIABLE):
        SWITCHES[name].turn_off()


def _read_without_lock(rows: QuerySet[Row]) -> list[Row]:
    return list(rows.order_by("pk"))


def _no_balance_lock() -> None:
    _put(locking, "lock_rows", _read_without_lock)


def _new_key_for_every_send() -> None:
    send = StripeProvider.pay

    def pay(provider: StripeProvider, order: PaymentOrder) -> Outcome:
        return send(provider, replace(order, wire_key=uuid4()))

    _put(StripeProvider, "pay", pay)


def _any_lease_token() -> None:
    _put(outbound, "holds", lambda _row, _claim: True)


def _no_look_at_the_lease() -> None:
    _put(outbound, "may_call", lambda _claim: True)


def _without(rule: Rule) -> Callable[[], None]:
    """The protocol's pure functions, blind to what the rule looks at."""
    rules = Rules(off=rule)

    def turn_off() -> None:
        for module in (protocol, outbound):
            _put(module, "decide", rules.decide)
            _put(module, "judge", rules.judge)

    return turn_off


def _put(owner: Any, name: str, value: object) -> None:
    if not hasattr(owner, name):
        raise AttributeError(f"{owner.__name__} has no {name} to switch off")
    setattr(owner, name, value)


UNKNOWN_OUTCOMES = "tests/payments/test_unknown_outcomes.py"

SWITCHES = {
    "balance_lock": Switch(
        "an order's balance is locked while it is judged",
        ("tests/races/test_balance_races.py",),
        _no_balance_lock,
    ),
    "same_key": Switch(Rule.SAME_KEY, (UNKNOWN_OUTCOMES,), _new_key_for_every_send),
    "query_first": Switch(Rule.QUERY_FIRST, (UNKNOWN_OUTCOMES,), _without(Rule.QUERY_FIRST)),
    "window": Switch(Rule.WINDOW, (UNKNOWN_OUTCOMES,), _without(Rule.WINDOW)),
    "token": Switch(
        Rule.LEASE_TOKEN, ("tests/recovery/test_stalled_workers.py",), _any_lease_token
    ),
    "lease_before_send": Switch(
        Rule.LEASE_CHECK, ("tests/recovery/test_stalled_workers.py",), _no_look_at_the_lease
    ),
    "definite_needs_lookup": Switch(
        Rule.REFUSAL_AFTER_DOUBT, (UNKNOWN_OUTCOMES,), _without(Rule.REFUSAL_AFTER_DOUBT)
    ),
    "quiet_without_keys": Switch(
        Rule.QUIET_WITHOUT_KEYS, (UNKNOWN_OUTCOMES,), _without(Rule.QUIET_WITHOUT_KEYS)
    ),
}
