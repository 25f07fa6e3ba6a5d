"""Where the running demo is."""

from __future__ import annotations

import json
from dataclasses import dataclass
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

    @classmethod
    def running_in(cls, data_dir: Path) -> Demo:
        """The demo of a data directory. Raises DrillError when none runs."""
        path = data_dir / "demo.json"
        try:
            facts = json.loads(path.read_text())
            return cls(
                data_dir=data_dir,
                web=facts["web"],
                provider=facts["provider"],
                erp=facts["erp"],
                database_url=facts["database_url"],
                tokens=facts["tokens"],
            )
        except FileNotFoundError:
            raise DrillError(
                f"No demo runs: {path} is not there. Start `make demo`, or set DATA_DIR."
            ) from None
        except (OSError, ValueError, KeyError) as error:
            raise DrillError(f"{path} cannot be read: {error!r}") from error

    def program_pids(self) -> set[int]:
        """The pids of the demo's programs; their children are not among them."""
        pids: dict[str, int] = json.loads((self.data_dir / "processes.json").read_text())
        return set(pids.values())
