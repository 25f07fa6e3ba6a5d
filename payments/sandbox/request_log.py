"""Every request seen, in a file of its own, so that the log survives a kill and costs no memory."""

from __future__ import annotations

import threading
from pathlib import Path

from payments.sandbox.clock import Clock
from payments.sandbox.exchange import Answer, Request
from payments.sandbox.faults import Fault
from payments.sandbox.journal import Journal, JsonObject


class RequestLog:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._journal = Journal(path)
        self._clock = clock
        self._lock = threading.Lock()

    def note(
        self, request: Request, parameters: object, fault: Fault | None, answer: Answer | None
    ) -> None:
        """One line per request; the status is what was decided, even if the client never saw it."""
        facts = {
            "at": self._clock.now().isoformat(),
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "idempotency_key": request.idempotency_key,
            "parameters": parameters,
            "fault": fault.mode if fault else None,
            "status": answer.status if answer else None,
        }
        with self._lock:
            self._journal.append([("request", facts)], durable=False)

    def seen(self) -> list[JsonObject]:
        with self._lock:
            return [facts for _, facts in self._journal.replay()]

    def clear(self) -> None:
        with self._lock:
            self._journal.clear()

    def close(self) -> None:
        self._journal.close()
