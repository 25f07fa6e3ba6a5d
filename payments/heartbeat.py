"""Signs of life of the processes that never end."""

from __future__ import annotations

from collections.abc import Collection

from django.utils import timezone

from payments.models import Heartbeat


def beat(name: str) -> None:
    """Say that the process of this name is alive now."""
    Heartbeat.objects.update_or_create(name=name, defaults={"at": timezone.now()})


def ages() -> dict[str, float]:
    """Seconds since each process was last alive."""
    now = timezone.now()
    return {beat.name: (now - beat.at).total_seconds() for beat in Heartbeat.objects.all()}


def longest_silence_seconds(names: Collection[str]) -> float | None:
    """Since the one of these processes that has been silent longest was last alive.

    None when one has never been alive: a process that lives does not speak for another.
    """
    known = ages()
    if any(name not in known for name in names):
        return None
    return max(known[name] for name in names)
