"""What one message asks for, and what about it cannot be understood. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from returns.errors import Invalid
from returns.identity import NAME_RULE, is_name

LONGEST_CASE = 100


@dataclass(frozen=True)
class Item:
    """Units of one order line: numbered ones, or the first `quantity` of them."""

    line: str
    quantity: int | None = None
    units: tuple[int, ...] = ()


@dataclass(frozen=True)
class Goodwill:
    """An amount beyond the goods, under a case reference; `amount` in major units as text."""

    case: str
    amount: str


@dataclass(frozen=True)
class ReturnRequest:
    """What one message asks for."""

    channel: str
    message_id: str
    order: str
    items: tuple[Item, ...] = ()
    shipping: bool = False
    goodwill: Goodwill | None = None
    additional: bool = False
    reason: str = ""
    customer_text: str = ""

    @property
    def digest(self) -> str:
        """A fingerprint of the content; order numbers are equal in any case."""
        content = {**asdict(self), "order": self.order.upper()}
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def refuse_nonsense(request: ReturnRequest, channels: Collection[str]) -> None:
    """Raises Invalid, naming every field that makes no sense by itself."""
    complaints: dict[str, Any] = {}
    if request.channel not in channels:
        complaints["channel"] = f"Use one of: {', '.join(channels)}."
    if len(request.message_id) > 200 or not request.message_id.strip():
        complaints["message_id"] = "Give the message an id of 1 to 200 characters, not all blank."
    if not (request.items or request.shipping or request.goodwill):
        complaints["items"] = "Say what comes back: items, shipping or goodwill."
    if request.goodwill and not is_name(request.goodwill.case, LONGEST_CASE):
        complaints["goodwill"] = f"Give the case a reference of 1 to {LONGEST_CASE} {NAME_RULE}."
    complaint = _items_complaint(request.items)
    if complaint:
        complaints["items"] = complaint
    if complaints:
        raise Invalid(complaints)


def _items_complaint(items: Collection[Item]) -> str:
    if len({item.line for item in items}) != len(items):
        return "Name each line once."
    for item in items:
        if bool(item.units) == (item.quantity is not None):
            return f"Line {item.line}: give either a quantity or unit numbers."
        if item.quantity is not None and item.quantity < 1:
            return f"Line {item.line}: the quantity must be at least 1."
        if len(set(item.units)) != len(item.units):
            return f"Line {item.line}: name each unit once."
    return ""
