"""Faults ordered in advance, for tests and drills: the next requests that match go wrong.

before  nothing has happened when the answer goes wrong
after   the effect stands, the answer is lost, replaced or late
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass

from payments.sandbox.exchange import BadRequestError, Request
from payments.sandbox.journal import JsonObject

TRANSPORT_MODES = frozenset(
    {
        "drop_before",  # hang up, nothing applied
        "drop_after",  # apply, then hang up
        "error_before",  # 500, nothing applied
        "error_after",  # apply, then 500
        "slow",  # apply, then wait `seconds` before answering
        "garbage_after",  # apply, then 200 with a body that is not JSON
        "rate_limit",  # 429 with Retry-After, nothing applied
        "unauthorized",  # 401, nothing applied
        "late",  # hang up now; the request arrives and is applied `seconds` later
    }
)


@dataclass(eq=False)
class Fault:
    mode: str
    times: int
    match: str | None
    seconds: float

    def fits(self, request: Request, default_target: str) -> bool:
        """Without `match`, or with one that names no path, only the default target is hit."""
        if self.match is None:
            return request.target == default_target
        return ("/" in self.match or request.target == default_target) and (
            self.match in request.text
        )


class FaultBook:
    """Faults still to come, oldest order first; thread-safe."""

    def __init__(self, modes: frozenset[str], default_target: str) -> None:
        self._modes = modes
        self._default_target = default_target
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def order(self, document: JsonObject) -> JsonObject:
        """Add a fault; raises BadRequestError with the reason when it makes no sense."""
        unknown = set(document) - {"mode", "times", "match", "seconds"}
        if unknown:
            raise BadRequestError(f"unknown field: {', '.join(sorted(unknown))}")
        if document.get("mode") not in self._modes:
            raise BadRequestError(f"mode must be one of: {', '.join(sorted(self._modes))}")
        times, seconds = document.get("times", 1), document.get("seconds", 1.0)
        if type(times) is not int or times < 1:
            raise BadRequestError("times must be a whole number, at least 1")
        if type(seconds) not in {int, float} or seconds < 0:
            raise BadRequestError("seconds must be a number, not negative")
        match = document.get("match")
        if match is not None and (not isinstance(match, str) or not match):
            raise BadRequestError("match must be text")
        fault = Fault(document["mode"], times, match, seconds)
        with self._lock:
            self._faults.append(fault)
        return asdict(fault)

    def take(self, request: Request) -> Fault | None:
        """The fault that hits this request, counted down; None when it is to go well."""
        with self._lock:
            for fault in self._faults:
                if fault.fits(request, self._default_target):
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                    return fault
        return None

    def listed(self) -> list[JsonObject]:
        with self._lock:
            return [asdict(fault) for fault in self._faults]

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()
