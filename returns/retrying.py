"""Database work that the database itself has undone is done again; a call to others never is.

Two transactions that wait for each other, or that cannot be put into an order, are nobody's
mistake: PostgreSQL ends one of them, undoes all of it and expects it to be tried again. Whoever
calls out does so outside of what is decorated here.
"""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import OperationalError, transaction

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)

TRIES = 5
# The pause before a second try, at most; it doubles from try to try.
PAUSE_SECONDS = 0.02
# deadlock_detected, serialization_failure: all of the transaction is undone, for certain.
_UNDONE = frozenset({"40P01", "40001"})


def database_work_is_retried(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function that opens one transaction, reads what it needs in it, and calls nobody.

    Inside somebody else's transaction it runs once: that one is undone as a whole, and only
    whoever opened it can do it again. Every other error, a lost connection too, is passed on: what
    it left behind is not known.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        for tried in range(1, TRIES):
            try:
                return function(*args, **kwargs)
            except OperationalError as error:
                if not was_undone(error) or transaction.get_connection().in_atomic_block:
                    raise
                log.warning("%s: undone by the database, tried %d times", function.__name__, tried)
                # By lot, so that two that met do not meet again.
                time.sleep(random.uniform(0, PAUSE_SECONDS * 2 ** (tried - 1)))  # noqa: S311
        return function(*args, **kwargs)

    return wrapper


def was_undone(error: OperationalError) -> bool:
    """Whether an error means that the transaction is undone and may simply be tried again."""
    return getattr(error.__cause__, "sqlstate", None) in _UNDONE
