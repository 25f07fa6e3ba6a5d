"""What crosses the wire, without the wire: requests, answers and the table of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import unquote_plus

from payments.sandbox.journal import JsonObject


class BadRequestError(Exception):
    """A control request that cannot be understood; the text says why."""


@dataclass(frozen=True)
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def idempotency_key(self) -> str | None:
        return self.headers.get("idempotency-key")

    @property
    def target(self) -> str:
        """Method and path, as in "POST /v1/refunds"."""
        return f"{self.method} {self.path}"

    @property
    def text(self) -> str:
        """Everything a fault can be matched by: target, query, decoded body, idempotency key."""
        query = f"?{unquote_plus(self.query)}" if self.query else ""
        body = unquote_plus(self.body.decode("utf-8", "replace"))
        return f"{self.target}{query} {body} {self.idempotency_key or ''}"

    def json_object(self) -> JsonObject:
        """The JSON object in the body (empty body: empty object); raises BadRequestError."""
        document = self.json()
        if not isinstance(document, dict):
            raise BadRequestError("the body must be a JSON object")
        return document

    def json(self) -> Any:
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise BadRequestError(f"the body is not JSON: {error}") from error


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(status: int, document: object, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(document, indent=2).encode(), headers=headers or {})


def refused(status: int, code: str, detail: str, **facts: object) -> Answer:
    """A refusal in the plain shape of the control API and of the sandbox ERP."""
    return json_answer(status, {"code": code, "detail": detail, **facts})


class NoRouteError(Exception):
    """No such address, or not with this method."""

    def __init__(self, request: Request, *, path_exists: bool) -> None:
        super().__init__(f"Unrecognized request URL ({request.target}).")
        self.status = 405 if path_exists else 404


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Routes(Generic[Endpoint]):
    """Method and path to function; `<>` in a path stands for one identifier."""

    def __init__(self, table: Mapping[str, Endpoint]) -> None:
        self._routes = [
            (method, re.compile(re.escape(path).replace("<>", "([^/]+)")), endpoint)
            for (method, path), endpoint in ((key.split(" "), end) for key, end in table.items())
        ]

    def find(self, request: Request) -> tuple[Endpoint, tuple[str, ...]]:
        """The endpoint and the identifiers found in the path; raises NoRouteError."""
        path_exists = False
        for method, pattern, endpoint in self._routes:
            match = pattern.fullmatch(request.path)
            if match and method == request.method:
                return endpoint, match.groups()
            path_exists = path_exists or match is not None
        raise NoRouteError(request, path_exists=path_exists)
