"""The API's document as a page to read: plain HTML, nothing from elsewhere, no script."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

_METHODS = ("get", "post", "put", "patch", "delete")
_REFERENCE = "#/components/schemas/"


@dataclass(frozen=True)
class Shape:
    """The type of a value in words, and the name of the object it is or holds, if any."""

    words: str
    name: str = ""


@dataclass(frozen=True)
class Answer:
    """One possible answer to a request."""

    status: str
    meaning: str
    shape: Shape | None


@dataclass(frozen=True)
class Operation:
    """One request that can be made."""

    name: str
    method: str
    path: str
    summary: str
    description: str
    parameters: list[dict[str, Any]]
    body: Shape | None
    answers: list[Answer]


@dataclass(frozen=True)
class Property:
    """One field of an object."""

    name: str
    shape: Shape
    required: bool
    description: str


@require_safe
def api_docs(request: HttpRequest) -> HttpResponse:
    """Every operation and every object of the API."""
    return render(request, "api_docs.html", _facts())


@functools.cache
def _facts() -> dict[str, Any]:
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    document = _without_marks(generator.get_schema(public=True))  # type: ignore[no-untyped-call]
    return {
        "title": document["info"]["title"],
        "description": document["info"]["description"],
        "operations": [
            _operation(path, method, operations[method])
            for path, operations in document["paths"].items()
            for method in _METHODS
            if method in operations
        ],
        "objects": {
            name: {"description": schema.get("description", ""), "properties": _properties(schema)}
            for name, schema in document["components"]["schemas"].items()
            if schema.get("type") == "object"
        },
        "choices": {
            name: schema["enum"]
            for name, schema in document["components"]["schemas"].items()
            if "enum" in schema
        },
    }


def _without_marks(node: Any) -> Any:
    """The document without the backticks of its descriptions."""
    if isinstance(node, dict):
        return {name: _without_marks(inner) for name, inner in node.items()}
    if isinstance(node, list):
        return [_without_marks(inner) for inner in node]
    return node.replace("`", "") if isinstance(node, str) else node


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Operation:
    body = operation.get("requestBody")
    return Operation(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        description=operation.get("description", ""),
        parameters=[
            {**parameter, "shape": _shape(parameter["schema"])}
            for parameter in operation.get("parameters", ())
        ],
        body=_content(body) if body else None,
        answers=[
            Answer(status, answer.get("description", ""), _content(answer))
            for status, answer in operation["responses"].items()
        ],
    )


def _content(holder: Mapping[str, Any]) -> Shape | None:
    for content in holder.get("content", {}).values():
        return _shape(content.get("schema", {}))
    return None


def _properties(schema: Mapping[str, Any]) -> list[Property]:
    required = schema.get("required", ())
    return [
        Property(name, _shape(inner), name in required, inner.get("description", ""))
        for name, inner in schema.get("properties", {}).items()
    ]


def _shape(schema: Mapping[str, Any]) -> Shape:
    """What a schema is, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return Shape(name, name)
    for several in ("allOf", "oneOf"):
        if several in schema:
            return _shape(schema[several][0])
    if schema.get("type") == "array":
        inner = _shape(schema["items"])
        return Shape(f"list of {inner.words}", inner.name)
    words = schema.get("format") or schema.get("type", "anything")
    return Shape(f"{words} or null" if schema.get("nullable") else words)
