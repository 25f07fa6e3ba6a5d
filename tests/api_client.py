"""A client of the HTTP API that also holds every answer against the API's own document."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from django.contrib.auth.models import User
from drf_spectacular.generators import SchemaGenerator
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

Json = Any


@dataclass(frozen=True)
class Answer:
    """Status and body of one answer."""

    status: int
    body: Json
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """The stable code of a refusal."""
        return str(self.body["code"])

    @property
    def fields(self) -> dict[str, list[str]]:
        """The complaints of a refusal by field."""
        return dict(self.body["fields"])


class Api:
    """The API as seen by one account, or by nobody."""

    def __init__(self, user: User | None) -> None:
        self._client = APIClient()
        if user is not None:
            token, _ = Token.objects.get_or_create(user=user)
            self._client.credentials(HTTP_AUTHORIZATION=f"Token {token.key}")

    def get(self, path: str, **query: str) -> Answer:
        return self._answer("GET", path, self._client.get(_address(path), query))

    def post(self, path: str, body: Json = None) -> Answer:
        return self.send("POST", path, json.dumps(body if body is not None else {}).encode())

    def put(self, path: str, body: Json) -> Answer:
        return self.send("PUT", path, json.dumps(body).encode())

    def send(self, method: str, path: str, raw: bytes, kind: str = "application/json") -> Answer:
        """Any bytes at all."""
        # The stubs want text where bytes are sent.
        sent: Any = raw
        response = self._client.generic(method, _address(path), sent, content_type=kind)
        return self._answer(method, path, response)

    def _answer(self, method: str, path: str, response: Any) -> Answer:
        body = response.json()
        _assert_documented(method, _address(path), response.status_code, body)
        return Answer(response.status_code, body, dict(response.headers))


def _address(path: str) -> str:
    return path if path.startswith(("/", "http")) else f"/api/v1/{path}"


# What any endpoint may say and the document does not repeat at each.
_EVERYWHERE = (405, 413, 415, 503)


def _assert_documented(method: str, address: str, status: int, body: Json) -> None:
    responses = _responses(method, re.sub(r"^https?://[^/]+|\?.*", "", address))
    if responses is None or status in _EVERYWHERE:
        return
    assert str(status) in responses, f"{method} {address} answers {status}, undocumented: {body}"
    (content,) = responses[str(status)]["content"].values()
    jsonschema.validate(body, content["schema"])


def _responses(method: str, address: str) -> dict[str, Any] | None:
    for template, operations in _document()["paths"].items():
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", template)
        if re.fullmatch(pattern, address) and method.lower() in operations:
            return dict(operations[method.lower()]["responses"])
    return None


@functools.cache
def _document() -> dict[str, Any]:
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    document = generator.get_schema(public=True)  # type: ignore[no-untyped-call]
    return dict(_plain(document, document["components"]["schemas"]))


def _plain(node: Any, objects: dict[str, Any]) -> Any:
    """The document as JSON Schema: references resolved, nothing beyond the declared fields."""
    if isinstance(node, list):
        return [_plain(inner, objects) for inner in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        is_closed = name not in ("Error", "Invalid")
        plain = _plain(objects[name], objects)
        return (
            {**plain, "additionalProperties": False} if is_closed and _has_fields(plain) else plain
        )
    plain = {name: _plain(inner, objects) for name, inner in node.items()}
    if plain.pop("nullable", False):
        return {"anyOf": [plain, {"type": "null"}]}
    return plain


def _has_fields(schema: dict[str, Any]) -> bool:
    return "properties" in schema
