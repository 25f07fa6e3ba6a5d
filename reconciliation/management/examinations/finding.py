"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What was found about something; `advice` says what to do when it is not as it should be."""

    about: str
    ok: bool
    found: str
    advice: str
