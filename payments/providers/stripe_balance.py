"""Stripe's balance transactions: what its settlement files list as well, line for line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from operator import index
from typing import Any, Literal

import stripe

from payments.providers.base import Movement, NotListed

# The types under which the reporting categories below occur. The category decides: an adjustment
# may be a dispute or something else, and a failed debit is no refund that came back.
_TYPES = ("refund", "payment_refund", "refund_failure", "adjustment")
_Kind = Literal["refund", "refund_returned", "chargeback", "chargeback_reversed"]
_KINDS: dict[str, _Kind] = {
    "refund": "refund",
    "refund_failure": "refund_returned",
    "dispute": "chargeback",
    "dispute_reversal": "chargeback_reversed",
}
_PAGE = 100


def movements(
    client: stripe.StripeClient, start: datetime, end: datetime, times_hundred: frozenset[str]
) -> Iterator[Movement]:
    """Every refund and dispute from `start` until before `end`. Raises NotListed."""
    created = {"gte": int(start.timestamp()), "lt": int(end.timestamp())}
    try:
        for kind in _TYPES:
            params: Any = {"type": kind, "created": created, "limit": _PAGE}
            params["expand"] = ["data.source"]
            for listed in client.v1.balance_transactions.list(params).auto_paging_iter():
                line = listed.to_dict()
                if line["reporting_category"] in _KINDS:
                    yield _movement(line, times_hundred)
    except stripe.StripeError as error:
        raise NotListed(f"{type(error).__name__}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NotListed(f"a balance transaction that cannot be understood: {error!r}") from error


def _movement(line: dict[str, Any], times_hundred: frozenset[str]) -> Movement:
    source = line["source"]
    amount_minor, currency = _out(line, source, times_hundred)
    return Movement(
        line_id=line["id"],
        kind=_KINDS[line["reporting_category"]],
        refund=source["id"],
        payment=source.get("payment_intent") or source.get("charge") or "",
        operation=(source.get("metadata") or {}).get("operation_key", ""),
        amount_minor=amount_minor,
        currency=currency,
        at=datetime.fromtimestamp(line["created"], tz=UTC),
    )


def _out(
    line: dict[str, Any], source: dict[str, Any], times_hundred: frozenset[str]
) -> tuple[int, str]:
    """What left us in the refund's own currency; the balance may be kept in another one."""
    amount, currency = -index(line["amount"]), line["currency"].upper()
    if source["currency"].upper() != currency:
        currency = source["currency"].upper()
        amount = index(source["amount"]) * (1 if amount > 0 else -1)
    if currency not in times_hundred:
        return amount, currency
    minor, rest = divmod(amount, 100)
    if rest:
        raise ValueError(f"{amount} is no whole amount of {currency}")
    return minor, currency
