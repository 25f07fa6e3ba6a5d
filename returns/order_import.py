"""Confirm many orders one after the other; one that is refused never stops the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction

from returns.errors import RefundDeskError
from returns.importing.reading import Broken
from returns.importing.rows import Row
from returns.order_body import read_order
from returns.ordering import clean_number, confirm_order
from returns.permissions import INTEGRATION

# Who stands behind imported orders when nobody is named. It has no password and no token.
IMPORTER = "importer"

CREATED, EXTENDED, UNCHANGED, REFUSED = "created", "extended", "unchanged", "refused"


@dataclass(frozen=True)
class Imported:
    """What became of one order: created, extended, unchanged, or refused with its reason."""

    place: str
    number: str
    outcome: str
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def importer() -> User:
    """The product's own account for imports, made on first use."""
    with transaction.atomic():
        user, created = User.objects.get_or_create(username=IMPORTER)
        if created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
            user.groups.add(Group.objects.get(name=INTEGRATION))
    return user


def import_orders(rows: Iterable[Row | Broken], by: User) -> Iterator[Imported]:
    """Confirm each row as it comes and say what became of it."""
    for row in rows:
        if isinstance(row, Broken):
            yield Imported(row.place, "", REFUSED, row.reason)
        else:
            yield _confirmed(row, by)


def _confirmed(row: Row, by: User) -> Imported:
    number = clean_number(row.number)
    try:
        facts = read_order(number, row.body)
        _, confirmed = confirm_order(number=number, facts=facts, by=by)
    except RefundDeskError as error:
        return Imported(row.place, number, REFUSED, _reason(error), dict(error.facts))
    return Imported(row.place, number, confirmed.value)


def _reason(error: RefundDeskError) -> str:
    """The refusal in one line, with the fields or facts that it is about."""
    about = error.facts.get("fields") or error.facts
    said = [f"{name}: {_sentence(complaint)}" for name, complaint in about.items()]
    return " ".join(said if "fields" in error.facts else [error.detail, *said])


def _sentence(complaint: Any) -> str:
    return " ".join(map(str, complaint)) if isinstance(complaint, list) else str(complaint)
