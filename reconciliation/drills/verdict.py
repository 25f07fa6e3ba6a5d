"""What left the provider and what stands in the ERP, from their own books and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reconciliation.drills.report import Check
from reconciliation.drills.stage import Sale, Stage
from returns import money

# What an operation over a sale owes, in major units.
Owed = Callable[[Sale], str]


def everything(sale: Sale) -> str:
    """The whole sale is owed back."""
    return sale.total


def books(
    stage: Stage, operations: Mapping[str, Sale], owed: Owed = everything
) -> tuple[Check, ...]:
    """One refund and one entry for each operation, of what it owes, and nothing beside them."""
    refunds = stage.provider.money_out({sale.payment for sale in operations.values()})
    entries = stage.erp.entries(set(operations))
    right_refunds = sum(_is_right_refund(refund, operations, owed) for refund in refunds)
    right_entries = sum(_is_right_entry(entry, operations, owed) for entry in entries)
    wanted = len(operations)
    return (
        Check("refunds in the provider's ledger", wanted, len(refunds)),
        Check("  succeeded, of the right amount and payment", wanted, right_refunds),
        Check("  distinct keys", wanted, _distinct(refunds, "idempotency_key")),
        Check("  distinct operations", wanted, _distinct(refunds, "operation_key")),
        Check("entries in the ERP", wanted, len(entries)),
        Check("  posted, of the right amount", wanted, right_entries),
        Check("HTTP 5xx or no answer", 0, stage.crowd.server_errors),
    )


def _is_right_refund(refund: Mapping[str, Any], operations: Mapping[str, Sale], owed: Owed) -> bool:
    sale = operations.get(refund["operation_key"])
    if sale is None or refund["status"] != "succeeded" or refund["payment"] != sale.payment:
        return False
    return bool(refund["amount"] == money.parse(owed(sale), sale.currency))


def _is_right_entry(entry: Mapping[str, Any], operations: Mapping[str, Sale], owed: Owed) -> bool:
    sale = operations[entry["reference"]]
    expected = ("posted", owed(sale), sale.currency)
    return (entry["state"], entry["amount"], entry["currency"]) == expected


def _distinct(rows: list[dict[str, Any]], name: str) -> int:
    return len({row[name] for row in rows})
