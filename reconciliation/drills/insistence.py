"""Clients that send the same request again when no answer comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from reconciliation.drills.crowd import SERVER_ERRORS, Answer, Call, Crowd, Group
from reconciliation.drills.place import DrillError

PATIENCE_SECONDS = 180
PAUSE_SECONDS = 0.5


@dataclass
class Insistence:
    """A crowd whose members repeat a request until it is answered."""

    crowd: Crowd
    repeated: int = 0

    def spread(self, calls: Sequence[Call]) -> list[Answer]:
        """Every call once, and those without an answer again and again."""
        return self._until_answered(calls, self.crowd.spread(calls)) if calls else []

    def together(self, groups: Sequence[Group]) -> list[list[Answer]]:
        """The calls of each group at the same moment; those without an answer again later."""
        if not groups:
            return []
        answered = self.crowd.together(groups)
        calls = [call for group in groups for call in group]
        flat = iter(self._until_answered(calls, [a for group in answered for a in group]))
        return [[next(flat) for _ in group] for group in groups]

    def _until_answered(self, calls: Sequence[Call], answers: list[Answer]) -> list[Answer]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while silent := [place for place, answer in enumerate(answers) if _is_none(answer)]:
            if time.monotonic() > deadline:
                last = answers[silent[0]]
                raise DrillError(f"{len(silent)} requests stay unanswered, with {last}")
            time.sleep(PAUSE_SECONDS)
            self.repeated += len(silent)
            again = self.crowd.spread([calls[place] for place in silent])
            for place, answer in zip(silent, again, strict=True):
                answers[place] = answer
        return answers


def _is_none(answer: Answer) -> bool:
    """Whether the server has not said what became of the request."""
    return answer.status == 0 or answer.status in SERVER_ERRORS
