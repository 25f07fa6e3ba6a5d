"""Named places between two phases, where a test or a soak lets a process die, freeze or stall.

The product has no call sites for this: arming a point wraps one function in place, and nothing is
armed unless FAIL_POINTS is set. Production refuses to start with it (refunds.E005).

    FAIL_POINTS=POINT=ACTION[@PROBABILITY],...
    FAIL_POINTS=before-call=kill@0.02,after-call=stall:40@0.01,before-claim=freeze

The actions: `kill` (SIGKILL to the own process), `freeze` (SIGSTOP; somebody else continues it),
`stall:SECONDS`. Without a probability every hit acts. FAIL_SEED and the pid seed the dice, so each
process throws its own. Every hit is one JSON line on standard error and, when FAIL_LOG names a
file, at its end: {"at": ..., "pid": ..., "point": ..., "action": ...}.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured


class When(StrEnum):
    """On which side of a function its point lies."""

    BEFORE = "before"
    AFTER = "after"


class Point(NamedTuple):
    """Just before or just after `module:function`, found under the name its caller uses."""

    when: When
    place: str


POINTS = {
    # Intake and decisions: a verb's transaction, and what its caller does once it has committed.
    "order-written": Point(When.AFTER, "returns.ordering:_confirm"),
    "return-opened": Point(When.AFTER, "returns.intake:_open"),
    "message-stored": Point(When.AFTER, "returns.intake:_open_or_join"),
    "intake-committed": Point(When.AFTER, "returns.api:open_or_join"),
    "findings-written": Point(When.AFTER, "returns.inspection:_record"),
    "return-closed": Point(When.AFTER, "returns.closing:_end"),
    "approval-written": Point(When.AFTER, "payments.approval:_record"),
    "reserved": Point(When.AFTER, "payments.approval:reserve"),
    "approval-committed": Point(When.AFTER, "payments.api:approve"),
    # A call to the provider or the ERP: claim, call, record.
    "before-claim": Point(When.BEFORE, "payments.outbound:_claimed"),
    "claimed": Point(When.AFTER, "payments.outbound:_claimed"),
    "before-lease-check": Point(When.BEFORE, "payments.outbound:may_call"),
    "before-call": Point(When.BEFORE, "payments.providers.stripe:StripeProvider.pay"),
    "after-call": Point(When.AFTER, "payments.providers.stripe:StripeProvider.pay"),
    "before-look-up": Point(When.BEFORE, "payments.providers.stripe:StripeProvider.find"),
    "after-look-up": Point(When.AFTER, "payments.providers.stripe:StripeProvider.find"),
    "outcome-written": Point(When.AFTER, "payments.outbound:record"),
    "money-moved": Point(When.AFTER, "payments.settlement:take_effect"),
    "payment-recorded": Point(When.AFTER, "payments.settlement:record"),
    # The books.
    "postings-opened": Point(When.AFTER, "reconciliation.posting:async_task"),
    "before-draft": Point(When.BEFORE, "reconciliation.erp.sandbox:SandboxErp.create_draft"),
    "after-draft": Point(When.AFTER, "reconciliation.erp.sandbox:SandboxErp.create_draft"),
    "after-entry-look-up": Point(When.AFTER, "reconciliation.erp.sandbox:SandboxErp.find"),
    "before-post": Point(When.BEFORE, "reconciliation.erp.sandbox:SandboxErp.post"),
    "after-post": Point(When.AFTER, "reconciliation.erp.sandbox:SandboxErp.post"),
    "posting-recorded": Point(When.AFTER, "reconciliation.posting:record"),
    # News from the provider.
    "event-stored": Point(When.AFTER, "payments.webhooks:_store"),
    "news-applied": Point(When.AFTER, "payments.webhooks:apply_news"),
    "event-applied": Point(When.AFTER, "payments.webhooks:_apply"),
    "event-committed": Point(When.AFTER, "payments.webhooks:receive"),
}

_RULE = re.compile(
    r"(?P<point>[a-z-]+)=(?P<action>kill|freeze|stall:\d+(\.\d+)?)(@(?P<chance>[01](\.\d+)?))?"
)


def arm(point: str, act: Callable[[], None]) -> Callable[[], None]:
    """Let `act` run whenever a process comes to the point; returns what disarms it again.

    Raises KeyError for an unknown point, and ImportError or AttributeError for one whose function
    has gone.
    """
    when, place = POINTS[point]
    owner, name = owner_of(place)
    original = getattr(owner, name)

    @functools.wraps(original)
    def armed(*args: Any, **kwargs: Any) -> Any:
        if when is When.BEFORE:
            act()
        result = original(*args, **kwargs)
        if when is When.AFTER:
            act()
        return result

    setattr(owner, name, armed)
    return lambda: setattr(owner, name, original)


def owner_of(place: str) -> tuple[Any, str]:
    """The module or class that holds the function of a place, and the function's name in it."""
    module, _, path = place.partition(":")
    *classes, name = path.split(".")
    owner: Any = functools.reduce(getattr, classes, import_module(module))
    getattr(owner, name)
    return owner, name


def arm_from_environment() -> None:
    """Arm what FAIL_POINTS asks for. Raises ImproperlyConfigured when it cannot be read."""
    acts = [_read(rule.strip()) for rule in os.environ["FAIL_POINTS"].split(",")]
    for act in acts:
        arm(act.point, act)


def _read(rule: str) -> _Act:
    read = _RULE.fullmatch(rule)
    if read is None or read["point"] not in POINTS or float(read["chance"] or 1) > 1:
        raise ImproperlyConfigured(
            f"FAIL_POINTS: “{rule}” is not POINT=kill|freeze|stall:SECONDS[@PROBABILITY] "
            f"with one of the points {', '.join(POINTS)}."
        )
    return _Act(read["point"], read["action"], float(read["chance"] or 1))


class _Act:
    """What happens at an armed point, every time or only when the dice say so."""

    def __init__(self, point: str, action: str, chance: float) -> None:
        self.point = point
        self._action, self._chance = action, chance
        self._seed = os.environ.get("FAIL_SEED", "")
        self._log = os.environ.get("FAIL_LOG", "")
        self._thrown_in = 0

    def __call__(self) -> None:
        if self._throw() >= self._chance:
            return
        self._note()
        name, _, seconds = self._action.partition(":")
        if name == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            time.sleep(float(seconds))

    def _throw(self) -> float:
        if self._thrown_in != os.getpid():
            # Workers are forked: each throws dice of its own.
            self._thrown_in = os.getpid()
            self._dice = random.Random(f"{self._seed}:{self.point}:{os.getpid()}")  # noqa: S311
        return self._dice.random()

    def _note(self) -> None:
        facts = {"at": time.time(), "pid": os.getpid()}
        line = json.dumps(facts | {"point": self.point, "action": self._action}) + "\n"
        sys.stderr.write(line)
        sys.stderr.flush()
        if self._log:
            # One write at the end of the file: lines of several processes do not mix.
            file = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(file, line.encode())
            os.close(file)
