"""What must be true of every return at the end, weighed from the outsiders' own books. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciliation.drills.report import Check
from returns import money

RETURNED = "returned_after_success"


@dataclass(frozen=True)
class Due:
    """One return that managers have agreed to, and what must have come of it."""

    operation: str
    payment: str
    amount_minor: int
    currency: str
    # The bank has sent the money back after all: it is owed again, with an open item.
    came_back: bool = False


@dataclass(frozen=True)
class Standing:
    """What the product itself says of a return."""

    state: str
    open_items: tuple[str, ...] = ()
    stuck: int = 0


@dataclass(frozen=True)
class Evidence:
    """The books of provider and ERP, and what the product says; amounts in minor units."""

    due: Sequence[Due]
    # Payment -> what was captured on it.
    captured: Mapping[str, int]
    refunds: Sequence[Mapping[str, Any]]
    entries: Sequence[Mapping[str, Any]]
    standing: Mapping[str, Standing]
    # Payment -> (reserved, refunded) in the product's balance of its order.
    balances: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def weigh(evidence: Evidence) -> tuple[Check, ...]:
    """Every figure that must be nothing, and is not when something went wrong."""
    due = {one.operation: one for one in evidence.due}
    kept = [refund for refund in evidence.refunds if refund["status"] != "failed"]
    kept_of, credits_of = _by(kept, "operation_key"), _by(_posted(evidence.entries), "reference")
    paid = {key: one for key, one in due.items() if not one.came_back}
    return (
        _none("duplicates: returns with more than one refund", _several(kept_of)),
        _none("duplicates: returns with more than one credit", _several(credits_of)),
        _none("lost: agreed returns without a refund", len(paid.keys() - kept_of.keys())),
        _none("lost: refunds without a credit", len(kept_of.keys() - credits_of.keys())),
        _none("over-refunds: payments given back beyond", _beyond(kept, evidence.captured)),
        _none("refunds that are wrong or nobody's", _wrong_refunds(kept, paid)),
        _none("credits that are wrong or nobody's", _wrong_credits(evidence.entries, due)),
        _none("unresolved: returns that are not at their end", _unresolved(evidence, due)),
        _none("stuck: payments and credits set aside", _stuck(evidence)),
        _none("items of finance missing, or beyond those due", _odd_items(evidence, due)),
        _none("balances that differ from the provider's books", _odd_balances(evidence, kept)),
    )


def _none(name: str, found: int) -> Check:
    return Check(name, 0, found)


def _posted(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if entry["state"] == "posted"]


def _by(rows: Iterable[Mapping[str, Any]], name: str) -> dict[str, list[Mapping[str, Any]]]:
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row[name]].append(row)
    return dict(found)


def _several(rows: Mapping[str, Sequence[object]]) -> int:
    return sum(len(found) > 1 for found in rows.values())


def _given_back(kept: Iterable[Mapping[str, Any]]) -> Counter[str]:
    given: Counter[str] = Counter()
    for refund in kept:
        given[refund["payment"]] += refund["amount"]
    return given


def _beyond(kept: Iterable[Mapping[str, Any]], captured: Mapping[str, int]) -> int:
    return sum(minor > captured.get(payment, 0) for payment, minor in _given_back(kept).items())


def _wrong_refunds(kept: Iterable[Mapping[str, Any]], paid: Mapping[str, Due]) -> int:
    return sum(not _is_right(refund, paid.get(refund["operation_key"])) for refund in kept)


def _is_right(refund: Mapping[str, Any], due: Due | None) -> bool:
    if due is None or refund["status"] != "succeeded":
        return False
    found = (refund["payment"], refund["amount"], refund["currency"].upper())
    return found == (due.payment, due.amount_minor, due.currency)


def _wrong_credits(entries: Iterable[Mapping[str, Any]], due: Mapping[str, Due]) -> int:
    """A draft that stays is as wrong as an amount that differs."""
    return sum(not _is_right_credit(entry, due.get(entry["reference"])) for entry in entries)


def _is_right_credit(entry: Mapping[str, Any], due: Due | None) -> bool:
    if due is None or entry["state"] != "posted":
        return False
    amount = money.plain(due.amount_minor, due.currency)
    return (entry["amount"], entry["currency"]) == (amount, due.currency)


def _unresolved(evidence: Evidence, due: Mapping[str, Due]) -> int:
    """Who has been agreed to is posted, or owed again; nobody else waits for anything."""
    wanted = {key: "approved" if one.came_back else "posted" for key, one in due.items()}
    states = {key: standing.state for key, standing in evidence.standing.items()}
    wrong = sum(states.get(key) != state for key, state in wanted.items())
    others = states.keys() - due.keys()
    return wrong + sum(states[key] not in ("cancelled", "rejected") for key in others)


def _stuck(evidence: Evidence) -> int:
    return sum(standing.stuck for standing in evidence.standing.values())


def _odd_items(evidence: Evidence, due: Mapping[str, Due]) -> int:
    """Each return whose money came back has its open item; the others have none."""
    wanted = {key: (RETURNED,) if one.came_back else () for key, one in due.items()}
    return sum(
        tuple(sorted(standing.open_items)) != wanted.get(key, ())
        for key, standing in evidence.standing.items()
    )


def _odd_balances(evidence: Evidence, kept: Iterable[Mapping[str, Any]]) -> int:
    """At the end nothing is reserved, and what is refunded is what the provider has kept."""
    given = _given_back(kept)
    return sum(balance != (0, given[payment]) for payment, balance in evidence.balances.items())
