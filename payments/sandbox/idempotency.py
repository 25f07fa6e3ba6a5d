"""Answers saved under idempotency keys, forgotten 24 hours later by the sandbox's clock.

As at the real provider: what was saved is replayed whatever it was, a 500 included; a request
refused before its execution began saves nothing; a forgotten key makes a new refund.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from payments.sandbox.journal import Change, JsonObject

MEMORY_SECONDS = 24 * 60 * 60


@dataclass(frozen=True)
class SavedAnswer:
    key: str
    fingerprint: str
    status: int
    body: str
    first_seen_at: int


def fingerprint(path: str, parameters: JsonObject) -> str:
    """Equal for requests that ask for the same, in whatever order they say it."""
    canonical = json.dumps([path, parameters], sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


class SavedAnswers:
    def __init__(self) -> None:
        self._answers: dict[str, SavedAnswer] = {}

    def recall(self, key: str, now: int) -> SavedAnswer | None:
        """The answer given under this key; None when there is none, or it is forgotten."""
        answer = self._answers.get(key)
        if answer and now - answer.first_seen_at < MEMORY_SECONDS:
            return answer
        return None

    @staticmethod
    def saved(answer: SavedAnswer) -> Change:
        return "answer", asdict(answer)

    def record(self, facts: JsonObject) -> None:
        answer = SavedAnswer(**facts)
        self._answers[answer.key] = answer

    def clear(self) -> None:
        self._answers.clear()
