"""`python -m config.embedded start|url|stop`, for instance `psql "$(python -m config.embedded url)"`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from config.embedded import EmbeddedServerError, ensure_server, server_url, stop_server


def main() -> int:
    """Start, name or stop the PostgreSQL server of a data directory."""
    parser = argparse.ArgumentParser(prog="python -m config.embedded", description=main.__doc__)
    parser.add_argument("command", choices=["start", "url", "stop"])
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("DATA_DIR", ".data")), metavar="DIR"
    )
    options = parser.parse_args()
    try:
        match options.command:
            case "start":
                print(ensure_server(options.data_dir))
            case "url":
                print(server_url(options.data_dir))
            case "stop":
                stop_server(options.data_dir)
    except EmbeddedServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
