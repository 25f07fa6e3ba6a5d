"""The business timeline of an operation and the record of refused attempts."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any, ParamSpec, TypeVar

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from returns.errors import RefundDeskError
from returns.models import OperationEvent, Order, RefundOperation, RefusedAttempt

P = ParamSpec("P")
R = TypeVar("R")


def entry(
    operation: RefundOperation,
    verb: str,
    *,
    by: User | None,
    from_state: str = "",
    to_state: str = "",
    note: str = "",
    **facts: Any,
) -> OperationEvent:
    """One unsaved line of the timeline; the verb saves its lines together."""
    return OperationEvent(
        operation=operation,
        verb=verb,
        from_state=from_state,
        to_state=to_state,
        by=by,
        note=note,
        facts=facts,
        at=timezone.now(),
    )


def write(operation: RefundOperation, verb: str, *, by: User | None, **kwargs: Any) -> None:
    """Save one line of the timeline."""
    entry(operation, verb, by=by, **kwargs).save(force_insert=True)


def refusals_are_recorded(verb: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a verb: what it refuses is kept, after its own transaction has been undone.

    Reads the verb's keyword arguments `by`, `operation_key` and `number` to say who and what.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except RefundDeskError as error:
                _record_refusal(verb, error, dict(kwargs))
                raise

        return wrapper

    return decorate


def _record_refusal(verb: str, error: RefundDeskError, asked: dict[str, Any]) -> None:
    operation = order = None
    if "operation_key" in asked:
        operation = RefundOperation.objects.filter(operation_key=asked["operation_key"]).first()
    if "number" in asked:
        order = Order.objects.filter(number__iexact=asked["number"]).first()
    with transaction.atomic():
        RefusedAttempt.objects.create(
            verb=verb,
            code=error.code,
            detail=error.detail,
            by=asked.get("by"),
            operation=operation,
            order=order or (operation.order if operation else None),
            facts={"said": _plain(error.facts), "asked": _plain(asked)},
            at=timezone.now(),
        )


def _plain(values: dict[str, Any]) -> Any:
    """The same facts as JSON can hold them."""
    kept = {name: value for name, value in values.items() if name != "by"}
    return json.loads(json.dumps(kept, default=_readable))


def _readable(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)
