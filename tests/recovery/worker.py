"""Worker processes for crash tests: each connection to the socket is one process of its own.

A worker runs one verb of the product. At the named point it says so and then either waits for the
word to go on, or freezes itself (SIGSTOP) as a suspended machine would; meanwhile the test can
kill it. Django is loaded once, before the processes part.

    python -m tests.recovery.worker SOCKET
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

import django

from config.fail_points import arm


def approve(operation_key: str, username: str, amount_minor: int) -> str:
    from django.contrib.auth.models import User  # noqa: PLC0415 - Django must be loaded

    verb = import_module("payments.approval").approve
    by = User.objects.get(username=username)
    return str(verb(operation_key=UUID(operation_key), by=by, amount_minor=amount_minor).state)


def receive(body: str, headers: dict[str, str]) -> str:
    verb = import_module("payments.webhooks").receive
    return str(verb(name="stripe", body=body.encode(), headers=headers).standing)


def request(method: str, path: str, body: str, headers: dict[str, str]) -> int:
    """A client's request, answered in this process; the status of the answer."""
    client = import_module("django.test").Client(SERVER_NAME="localhost")
    kind = headers["Content-Type"]
    return int(client.generic(method, path, body, content_type=kind, headers=headers).status_code)


def verb_of(name: str) -> Callable[..., Any]:
    """One of the three above, or a function of the product, as `module:function`."""
    own: dict[str, Callable[..., Any]] = {
        "approve": approve,
        "receive": receive,
        "request": request,
    }
    if name in own:
        return own[name]
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


class Worker:
    """The process behind one connection."""

    def __init__(self, test: socket.socket) -> None:
        self._test = test.makefile("rw")

    def run(self) -> None:
        self._say(pid=os.getpid())
        order = json.loads(self._test.readline())
        for name, value in order["settings"].items():
            setattr(import_module("django.conf").settings, name, value)
        if not order["checks_its_lease"]:
            outbound: Any = import_module("payments.outbound")
            outbound.may_call = lambda _claim: True
        if order["stop_at"]:
            self._stop_at(order["stop_at"], order["time"], freezes=order["freezes"])
        try:
            self._say(result=verb_of(order["verb"])(*order["arguments"]))
        except Exception as error:  # noqa: BLE001 - the test is told
            self._say(error=repr(error))

    def _stop_at(self, point: str, time: int, *, freezes: bool) -> None:
        """Stop there when this process comes by for the nth time."""
        passed = itertools.count(1)

        def stop() -> None:
            if next(passed) < time:
                return
            disarm()
            self._say(reached=point)
            if freezes:
                os.kill(os.getpid(), signal.SIGSTOP)
            elif not self._test.readline():
                os._exit(1)  # the test is gone

        disarm = arm(point, stop)

    def _say(self, **facts: object) -> None:
        self._test.write(json.dumps(facts) + "\n")
        self._test.flush()


def serve(path: str) -> None:
    """Until standard input ends, one process per connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            test, _ = door.accept()
            if os.fork() == 0:
                door.close()
                Worker(test).run()
                os._exit(0)
            test.close()


if __name__ == "__main__":
    django.setup()
    import_module("config.urls")
    import_module("tests.switches.switch").turn_off_from_environment()
    serve(sys.argv[1])
