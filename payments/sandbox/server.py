"""The HTTP server of a sandbox, its command line and its refusals to start."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from payments.sandbox.base import Sandbox
from payments.sandbox.exchange import Answer, Request, refused
from payments.sandbox.journal import JournalBusyError, JournalDamagedError

# How long a stop may have to wait for the accepting loop to notice it.
_STOP_POLL_SECONDS = 0.1


class Connection(BaseHTTPRequestHandler):
    """One client connection, kept alive between requests."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together, in one packet

    def _exchange(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._send(refused(411, "length_required", "send a Content-Length"))
            return
        body = self.rfile.read(int(length))
        is_whole = len(body) == int(length)  # a client that died while sending asked for nothing
        answer = self.server.sandbox.answer(self._request(body)) if is_whole else None
        if answer is None:
            self._hang_up()
        else:
            self._send(answer)

    do_GET = do_POST = do_DELETE = _exchange  # noqa: N815 - http.server looks these up

    def _request(self, body: bytes) -> Request:
        address = urlsplit(self.path)
        return Request(
            method=self.command,
            path=address.path,
            query=address.query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
        )

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.body:
            self.send_header("Content-Type", answer.content_type)
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Silent: the request log of the control API says more."""


class Server(socketserver.ThreadingTCPServer):
    """Not http.server's own: that one asks the name service for the host's name at start-up."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, host: str, port: int, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is ordinary here; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def command_line(module: str, description: str) -> argparse.ArgumentParser:
    """The options every sandbox has."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--port", type=int, required=True, help="0 picks a free one")
    parser.add_argument("--data", type=Path, required=True, help="directory of its storage")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    return parser


def refuse_unsafe_start(parser: argparse.ArgumentParser, host: str) -> None:
    """Exit with code 2 in production, or when the address can be reached from elsewhere."""
    if os.environ.get("DJANGO_ENV") == "production":
        parser.error("a sandbox does not start while DJANGO_ENV=production")
    if not _is_loopback(host):
        parser.error(f"a sandbox listens on loopback only, not on {host}")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    open_sandbox: Callable[[], Sandbox],
) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    refuse_unsafe_start(parser, options.host)
    try:
        sandbox = open_sandbox()
        server = Server(options.host, options.port, sandbox)
    except (JournalBusyError, JournalDamagedError, OSError) as reason:
        parser.error(str(reason))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    sandbox.start()
    threading.Thread(
        target=server.serve_forever, args=(_STOP_POLL_SECONDS,), name="server", daemon=True
    ).start()
    host, port = server.server_address[:2]
    address = f"http://{_in_url(str(host))}:{port}"
    sys.stdout.write(f"{parser.prog}: {address}, data in {options.data}\n")
    sys.stdout.flush()
    stopped.wait()
    sandbox.stop()
    server.shutdown()
    server.server_close()
    return 0


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
