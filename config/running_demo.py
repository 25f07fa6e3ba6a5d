"""Commands typed beside a running demo talk to that demo, without any setting up."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from pathlib import Path

NOT_JOINED = (
    "Commands typed beside a running demo join it: start `make demo`, or name its DATA_DIR."
)


def environment_file(data_dir: Path) -> Path:
    """What the demo's processes see beyond the caller's environment; there while it runs."""
    return data_dir / "environment.json"


def join(environment: MutableMapping[str, str]) -> None:
    """Add a running demo's settings to an environment that has not said which one it is."""
    if "DJANGO_ENV" in environment:
        return
    path = environment_file(Path(environment.get("DATA_DIR", ".data")))
    try:
        settings: dict[str, str] = json.loads(path.read_text())
    except (FileNotFoundError, PermissionError):
        return
    for name, value in settings.items():
        environment.setdefault(name, value)
