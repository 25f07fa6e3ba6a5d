"""Where the running demo is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path


class DrillError(RuntimeError):
    """The drill cannot be carried out; the text says what to do."""


@dataclass(frozen=True)
class Demo:
    """A running demo: addresses, database and API tokens, as it has written them down itself."""

    data_dir: Path
    web: str
    provider: str
    erp: str
    database_url: str
    tokens: dict[str, str]
    # What its processes see beyond the caller's environment.
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def running_in(cls, data_dir: Path) -> Demo:
        """The demo of a data directory. Raises DrillError when none runs."""
        path = data_dir / "demo.json"
        try:
            facts = json.loads(path.read_text())
            environment = json.loads((data_dir / "environment.json").read_text())
            return cls(
                data_dir=data_dir,
                web=facts["web"],
                provider=facts["provider"],
                erp=facts["erp"],
                database_url=facts["database_url"],
                tokens=facts["tokens"],
                environment=environment,
            )
        except FileNotFoundError:
            raise DrillError(
                f"No demo runs: {path} is not there. Start `make demo`, or set DATA_DIR."
            ) from None
        except (OSError, ValueError, KeyError) as error:
            raise DrillError(f"{path} cannot be read: {error!r}") from error

    @property
    def lease_seconds(self) -> float:
        """How long a worker holds what it is working on."""
        return float(self.environment["OUTBOUND_LEASE_SECONDS"])

    @property
    def longest_way_seconds(self) -> float:
        """How long a request may travel to a counterpart, as the demo's adapters declare it."""
        names = ("STRIPE_MAX_UNDER_WAY_SECONDS", "ERP_MAX_UNDER_WAY_SECONDS")
        return min(float(self.environment[name]) for name in names)

    def programs(self) -> dict[str, int]:
        """The demo's programs by name and their pids; their children are not among them."""
        pids: dict[str, int] = json.loads((self.data_dir / "processes.json").read_text())
        return pids
