"""Where a demo lives, and what every process of it sees."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.ports import HOST, is_free
from config.private_files import write_private
from config.running_demo import environment_file

PORTS = {"PORT": 8000, "PROVIDER_PORT": 8001, "ERP_PORT": 8002}
USERS = ("desk", "manager", "finance", "admin")
TOKENS = ("integration", "online", "manager", "finance")

# How long things take with counterparts on this very machine; the caller may say otherwise.
TIMES = {
    "OUTBOUND_LEASE_SECONDS": "30",
    "OUTBOUND_CALL_SECONDS": "12",
    # A request to a sandbox travels as long as a fault lets it; the drills ask for less than this.
    "STRIPE_MAX_UNDER_WAY_SECONDS": "30",
    "ERP_MAX_UNDER_WAY_SECONDS": "30",
    # A sandbox that refuses our credentials does so on order, and not for long.
    "PROVIDER_HALT_SECONDS": "10",
}


class DemoError(RuntimeError):
    """The demo cannot start; the text says what to do."""


@dataclass(frozen=True)
class Place:
    """Where the demo lives: its data directory and its three ports."""

    data_dir: Path
    web_port: int
    provider_port: int
    erp_port: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Place:
        """Read DATA_DIR, PORT, PROVIDER_PORT and ERP_PORT. Raises DemoError."""
        ports = [_port(name, environment.get(name, str(PORTS[name]))) for name in PORTS]
        if len(set(ports)) < len(ports):
            raise DemoError(f"{', '.join(PORTS)} must be three different ports, not {ports}.")
        data_dir = Path(environment.get("DATA_DIR", ".data")).absolute()
        return cls(data_dir, *ports)

    @property
    def web(self) -> str:
        """The product's address."""
        return f"http://{HOST}:{self.web_port}"

    @property
    def provider(self) -> str:
        """The sandbox provider's address."""
        return f"http://{HOST}:{self.provider_port}"

    @property
    def erp(self) -> str:
        """The sandbox ERP's address."""
        return f"http://{HOST}:{self.erp_port}"

    @property
    def ready_file(self) -> Path:
        """The file that is there exactly while everything is up."""
        return self.data_dir / "demo.json"

    def forget(self) -> None:
        """Remove what says that a demo runs here."""
        self.ready_file.unlink(missing_ok=True)
        environment_file(self.data_dir).unlink(missing_ok=True)

    def require_free_ports(self) -> None:
        """Raise DemoError naming every port that somebody else uses."""
        ports = zip(PORTS, (self.web_port, self.provider_port, self.erp_port), strict=True)
        taken = [
            f"port {port} (set {name} to another)" for name, port in ports if not is_free(port)
        ]
        if taken:
            raise DemoError(f"Another program uses {' and '.join(taken)}.")


def environment_of(place: Place, database_url: str, given: Mapping[str, str]) -> dict[str, str]:
    """What every process of the demo sees; nothing of the caller's may lead it elsewhere."""
    secrets_path = place.data_dir / "secrets.json"
    own = _secrets(secrets_path)
    return {
        "DJANGO_ENV": "demo",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATA_DIR": str(place.data_dir),
        "DATABASE_URL": database_url,
        "PORT": str(place.web_port),
        "PROVIDER_PORT": str(place.provider_port),
        "ERP_PORT": str(place.erp_port),
        "ALLOWED_HOSTS": f"{HOST},localhost",
        "SECRET_KEY": own["secret_key"],
        "STRIPE_API_KEY": own["stripe_api_key"],
        "STRIPE_API_BASE": place.provider,
        "STRIPE_WEBHOOK_SECRET": own["stripe_webhook_secret"],
        "ERP_URL": place.erp,
        "DEMO_SECRETS": str(secrets_path),
        "PYTHONUNBUFFERED": "1",
        **{name: given.get(name, seconds) for name, seconds in TIMES.items()},
        # A proxy of the caller's has no business between the product and its sandboxes.
        "NO_PROXY": f"{HOST},localhost",
        "no_proxy": f"{HOST},localhost",
    }


def _secrets(path: Path) -> dict[str, Any]:
    """Return the data directory's secrets; drawn by lot once, then kept."""
    if not path.exists():
        drawn = {
            "secret_key": secrets.token_urlsafe(50),
            "stripe_api_key": f"sk_test_{secrets.token_hex(16)}",
            "stripe_webhook_secret": f"whsec_{secrets.token_hex(24)}",
            "passwords": {name: secrets.token_urlsafe(9) for name in USERS},
            "tokens": {name: secrets.token_hex(20) for name in TOKENS},
        }
        write_private(path, json.dumps(drawn, indent=2))
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def _port(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise DemoError(f"{name} must be a port number, not {text!r}.")
    return int(text)
