"""The permanent identity of a return: what is given back, never who asked or how.

The key is derived and not drawn by lot, so that even after a restore from backup the same goods
get the same key and the payment provider still refuses the second payment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from uuid import UUID, uuid5

# Drawn once for this product; changing it would change every key.
_NAMESPACE = UUID("6f0b7a52-0c55-4f0e-9d0b-3f2f6f1f8f5e")

SHIPPING = "shipping"

# What keys and subjects are made of. ASCII, so that the database, which finds an order whatever
# its case, and the key agree on which names are equal; and nothing that separates.
_NAME = re.compile(r"""(?:(?![/\\|,<>"])[!-~])+""")
NAME_RULE = 'ASCII letters, digits and signs, but no blanks and none of / \\ | , < > "'


def is_name(text: str, most: int) -> bool:
    """Whether a number, id or case reference may become part of a key."""
    return len(text) <= most and _NAME.fullmatch(text) is not None


def unit_subject(line_id: str, unit: int) -> str:
    """The subject of one unit of an order line, numbered from 1."""
    return f"line:{line_id}/unit:{unit}"


def goodwill_subject(case: str) -> str:
    """The subject of a goodwill amount under a case reference, whatever its case of letters."""
    return f"goodwill:{case.upper()}"


def subject_set(subjects: Iterable[str]) -> str:
    """Exactly these subjects, as one canonical text."""
    return "\n".join(sorted(subjects))


def operation_key(order_number: str, subjects: str, generation: int) -> UUID:
    """The key of an operation: order, canonical subjects, how often that was tried before."""
    return uuid5(_NAMESPACE, f"{order_number.upper()}\n{subjects}\n{generation}")


def wire_key(operation: UUID, tender_id: str, generation: int) -> UUID:
    """The key of one payment on the wire: operation, tender and round of paying."""
    return uuid5(_NAMESPACE, f"{operation}\n{tender_id}\n{generation}")
