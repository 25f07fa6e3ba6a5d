"""List objects: newest first, filtered by time, paged by cursor; and `expand`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from payments.sandbox.dialect import refuse_unknown
from payments.sandbox.journal import JsonObject
from payments.sandbox.refusals import invalid, no_such

_DEFAULT_LIMIT = 10
_MAX_LIMIT = 100

PAGING = frozenset({"limit", "starting_after", "ending_before", "created", "expand"})


class Listed(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def created_at(self) -> int: ...


Item = TypeVar("Item", bound=Listed)

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "gt": lambda created, bound: created > bound,
    "gte": lambda created, bound: created >= bound,
    "lt": lambda created, bound: created < bound,
    "lte": lambda created, bound: created <= bound,
}


def page(
    oldest_first: Sequence[Item],
    parameters: JsonObject,
    *,
    url: str,
    shape: Callable[[Item], JsonObject],
    filters: frozenset[str] = frozenset(),
) -> JsonObject:
    """One page of the items that pass the time filter; raises Refusal for bad parameters."""
    refuse_unknown(parameters, PAGING | filters)
    passes = _time_filter(parameters.get("created"))
    items = [item for item in reversed(oldest_first) if passes(item.created_at)]
    limit = _integer(parameters.get("limit", str(_DEFAULT_LIMIT)), "limit")
    if not 1 <= limit <= _MAX_LIMIT:
        raise invalid(f"This value must be between 1 and {_MAX_LIMIT}.", param="limit")
    if "ending_before" in parameters:
        before = items[: _place(items, parameters, "ending_before")]
        shown, has_more = before[-limit:], len(before) > limit
    else:
        start = _place(items, parameters, "starting_after") + 1
        shown, has_more = items[start : start + limit], len(items) > start + limit
    return {
        "object": "list",
        "data": [shape(item) for item in shown],
        "has_more": has_more,
        "url": url,
    }


def expand(
    document: JsonObject, parameters: JsonObject, find: Callable[[str], JsonObject]
) -> JsonObject:
    """Replace the identifiers named in `expand[]` by the objects they stand for."""
    paths = parameters.get("expand", {})
    if not isinstance(paths, dict) or not all(isinstance(path, str) for path in paths.values()):
        raise invalid("Invalid array", param="expand")
    for path in paths.values():
        _expand_path(document, path.split("."), find)
    return document


def _expand_path(
    document: JsonObject, path: Sequence[str], find: Callable[[str], JsonObject]
) -> None:
    head, rest = path[0], path[1:]
    value = document.get(head)
    if isinstance(value, list) and rest:
        for item in value:
            _expand_path(item, rest, find)
        return
    if isinstance(value, str):
        document[head] = value = find(value)
    if head not in document or not isinstance(value, dict | None):
        raise invalid(f"This property cannot be expanded ({head}).", param="expand")
    if isinstance(value, dict) and rest:
        _expand_path(value, rest, find)


def _time_filter(created: object) -> Callable[[int], bool]:
    if created is None:
        return lambda _: True
    if not isinstance(created, dict):
        moment = _integer(created, "created")
        return lambda created_at: created_at == moment
    bounds = []
    for name, text in created.items():
        if name not in _COMPARISONS:
            raise invalid(f"Received unknown parameter: created[{name}]", param=f"created[{name}]")
        bounds.append((_COMPARISONS[name], _integer(text, f"created[{name}]")))
    return lambda created_at: all(compare(created_at, bound) for compare, bound in bounds)


def _integer(text: object, param: str) -> int:
    if not isinstance(text, str) or not text.isdecimal():
        raise invalid(f"Invalid integer: {text}", code="parameter_invalid_integer", param=param)
    return int(text)


def _place(items: Sequence[Listed], parameters: JsonObject, cursor: str) -> int:
    """Where the cursor's object stands in the list; -1 when there is no cursor."""
    if cursor not in parameters:
        return -1
    for place, item in enumerate(items):
        if item.id == parameters[cursor]:
            return place
    raise no_such("object", parameters[cursor], cursor)
