"""The sandbox's own clock: the machine's time plus whatever was advanced by the control API."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from payments.sandbox.journal import Change, JsonObject


class Clock:
    def __init__(self) -> None:
        self.advanced_seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time() + self.advanced_seconds, tz=UTC)

    def timestamp(self) -> int:
        """Whole seconds since the epoch, as the provider writes times."""
        return int(self.now().timestamp())

    def advanced_by(self, seconds: float) -> Change:
        """The change that moves the clock forward; a clock never goes back."""
        return "clock", {"advanced_seconds": self.advanced_seconds + seconds}

    def record(self, facts: JsonObject) -> None:
        self.advanced_seconds = facts["advanced_seconds"]

    def clear(self) -> None:
        self.advanced_seconds = 0.0
