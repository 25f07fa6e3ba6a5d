"""Stands between an adapter and its counterpart, spoils what it is told to, and notes everything.

The counterpart knows nothing of it, so that a server nobody here wrote can be tested like our own.
Listens on 127.0.0.1 only, in a thread of the test's process.

before  the request never reaches the counterpart
after   it does, and the answer is lost, replaced or late
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from config.ports import HOST

# Headers about one connection, not about the message.
_OF_THE_CONNECTION = frozenset(
    "connection content-length date host keep-alive server transfer-encoding".split()
)
_ANSWER_SECONDS = 30
_STOP_POLL_SECONDS = 0.01


class Mode(StrEnum):
    """What becomes of a request."""

    DROP_BEFORE = "drop_before"  # hang up, nothing forwarded
    DROP_AFTER = "drop_after"  # forward, then hang up
    ERROR_BEFORE = "error_before"  # 500, nothing forwarded
    ERROR_AFTER = "error_after"  # forward, then 500
    SLOW = "slow"  # forward, then wait `seconds` before answering
    GARBAGE_AFTER = "garbage_after"  # forward, then 200 with a body that is not JSON
    RATE_LIMIT = "rate_limit"  # 429 with Retry-After `seconds`, nothing forwarded
    LATE = "late"  # hang up; forwarded on `let_arrive`, long after the client gave up


# Those after which the client knows nothing, and the counterpart has done it or not.
NOT_APPLIED = (Mode.DROP_BEFORE, Mode.ERROR_BEFORE)
APPLIED = (Mode.DROP_AFTER, Mode.ERROR_AFTER, Mode.GARBAGE_AFTER)


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """What a fault's pattern is searched in: method, target and body."""
        return f"{self.method} {self.target}\n{self.body.decode(errors='replace')}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Seen:
    """One line of the log; the status is what the counterpart said, None where it was not asked."""

    request: Request
    fault: Mode | None
    status: int | None = None


@dataclass
class _Fault:
    mode: Mode
    pattern: str
    times: int
    seconds: float


@dataclass
class FaultProxy:
    """Forwards to `upstream` (an address without path); `faults` come first, in their order."""

    upstream: str
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    _faults: list[_Fault] = field(default_factory=list)
    _late: list[Request] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def listening(self) -> Iterator[FaultProxy]:
        """Listens on a free port of 127.0.0.1 until the block ends."""
        with _Server(self._answer) as server:
            self.url = f"http://{HOST}:{server.server_address[1]}"
            threading.Thread(
                target=server.serve_forever, args=(_STOP_POLL_SECONDS,), daemon=True
            ).start()
            yield self
            self._stopping.set()
            server.shutdown()

    def fault(self, mode: Mode, pattern: str, *, times: int = 1, seconds: float = 1) -> None:
        """The next requests whose text has the pattern go wrong in this way."""
        with self._lock:
            self._faults.append(_Fault(mode, pattern, times, seconds))

    def requests(self, pattern: str) -> list[Seen]:
        """Those seen whose text has the pattern, oldest first."""
        with self._lock:
            return [seen for seen in self.seen if re.search(pattern, seen.request.text)]

    def let_arrive(self) -> list[int]:
        """Forward what was `late`, now; the statuses that nobody is there to read."""
        with self._lock:
            late, self._late = self._late, []
        return [self._forward(request).status for request in late]

    def reset(self) -> None:
        """No faults to come, nothing on its way, an empty log."""
        with self._lock:
            self._faults.clear()
            self._late.clear()
            self.seen.clear()

    def _answer(self, request: Request) -> Answer | None:
        """The answer to send; None means hang up without one."""
        fault = self._take(request)
        mode = fault.mode if fault else None
        seen = Seen(request, mode)
        with self._lock:
            self.seen.append(seen)
            if mode is Mode.LATE:
                self._late.append(request)
        if mode in (Mode.DROP_BEFORE, Mode.LATE):
            return None
        if mode is Mode.ERROR_BEFORE:
            return _error(500, "something went wrong")
        if fault and mode is Mode.RATE_LIMIT:
            return _error(429, "too many requests", {"Retry-After": f"{fault.seconds:.0f}"})
        answer = self._forward(request)
        seen.status = answer.status
        return self._spoilt(answer, fault) if fault else answer

    def _take(self, request: Request) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if re.search(fault.pattern, request.text):
                    fault.times -= 1
                    if fault.times == 0:
                        self._faults.remove(fault)
                    return fault
        return None

    def _spoilt(self, answer: Answer, fault: _Fault) -> Answer | None:
        match fault.mode:
            case Mode.ERROR_AFTER:
                return _error(500, "something went wrong")
            case Mode.GARBAGE_AFTER:
                return Answer(200, {"Content-Type": "text/html"}, b'{"id": "<html><body>upstream')
            case Mode.SLOW:
                return None if self._stopping.wait(fault.seconds) else answer
            case _:
                return None

    def _forward(self, request: Request) -> Answer:
        """Ask the counterpart; what it cannot answer is a 502, as behind any proxy."""
        connection = http.client.HTTPConnection(
            urlsplit(self.upstream).netloc, timeout=_ANSWER_SECONDS
        )
        try:
            headers = _of_the_message(request.headers)
            connection.request(request.method, request.target, request.body or None, headers)
            came = connection.getresponse()
            return Answer(came.status, _of_the_message(dict(came.getheaders())), came.read())
        except (OSError, http.client.HTTPException) as error:
            return _error(502, repr(error))
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Callable[[Request], Answer | None]) -> None:
        self.answer = answer
        super().__init__((HOST, 0), _Connection)

    def server_bind(self) -> None:
        """Without asking the name service what this machine is called."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what this is for."""


class _Connection(BaseHTTPRequestHandler):
    """One client connection, kept alive between requests as the real counterpart's would be."""

    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def _exchange(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.answer(Request(self.command, self.path, headers, body))
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _exchange  # noqa: N815 - looked up by name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Silent: the log of the proxy says more."""


def _of_the_message(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() not in _OF_THE_CONNECTION}


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    body = json.dumps({"error": {"message": message}}).encode()
    return Answer(status, {"Content-Type": "application/json", **(headers or {})}, body)
