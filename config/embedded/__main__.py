"""The embedded PostgreSQL on the command line: start, url, stop, restart, run.

`psql "$(python -m config.embedded url)"` opens the server of the demo that is running, and
`python -m config.embedded run COMMAND...` lends a command a server for as long as it runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

from config.embedded import (
    EmbeddedServerError,
    ensure_server,
    restart_server,
    running,
    server_url,
    stop_server,
)


def main() -> int:
    """Start, name, stop, restart or lend the PostgreSQL server of a data directory."""
    options = _parser().parse_args()
    try:
        match options.action:
            case "start":
                print(ensure_server(options.data_dir))
            case "url":
                print(server_url(options.data_dir))
            case "stop":
                stop_server(options.data_dir)
            case "restart":
                print(restart_server(options.data_dir, options.mode))
            case "run":
                return _run(options.data_dir, options.command)
    except EmbeddedServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(data_dir: Path, command: list[str]) -> int:
    """Run a command with DATABASE_URL set; a server named there already is taken as it is.

    The lent server is a hasty one, for tests: what it holds does not outlive a crash.
    """
    given = os.environ.get("DATABASE_URL")
    with nullcontext(given) if given else running(data_dir, durable=False) as url:
        process = subprocess.Popen(command, env={**os.environ, "DATABASE_URL": url})  # noqa: S603

        def pass_on(number: int, _frame: FrameType | None) -> None:
            process.send_signal(number)

        signal.signal(signal.SIGTERM, pass_on)
        # A terminal's Ctrl-C reaches the command by itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        status = process.wait()
    # As a shell would report a command that a signal ended.
    return status if status >= 0 else 128 - status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m config.embedded", description=main.__doc__)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("DATA_DIR", ".data")), metavar="DIR"
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("start", help="start the server unless it runs, print its DATABASE_URL")
    actions.add_parser("url", help="print the DATABASE_URL of the server that runs")
    actions.add_parser("stop", help="stop the server if it runs")
    restart = actions.add_parser("restart", help="stop and start it, print its DATABASE_URL")
    restart.add_argument(
        "--mode",
        choices=("fast", "immediate"),
        default="fast",
        help="immediate: as a crash would, with recovery at the start (default: fast)",
    )
    run = actions.add_parser(
        "run", help="run a command with DATABASE_URL set, then stop the server"
    )
    run.add_argument("command", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main())
