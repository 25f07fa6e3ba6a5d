"""Runs localstripe on loopback, in the environment that it is installed in.

By itself it listens on every address of the machine and writes all it knows to one file in /tmp at
every change.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from importlib import import_module


def end_with_the_test() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    server = import_module("localstripe.server")
    import_module("localstripe.resources").Store.dump_to_disk = lambda _store: None
    door = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=end_with_the_test, daemon=True).start()
    sys.stdout.write(f"localstripe: http://127.0.0.1:{door.getsockname()[1]}\n")
    sys.stdout.flush()
    import_module("aiohttp.web").run_app(server.app, sock=door, print=None, access_log=None)


if __name__ == "__main__":
    main()
