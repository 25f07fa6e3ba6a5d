"""The books: postings, what others say they did, and what a person has to close."""

from reconciliation.models.mismatches import Mismatch, MismatchEvent
from reconciliation.models.postings import ErpPosting, PostingAttempt
from reconciliation.models.runs import DailyTotal, ReconciliationRun
from reconciliation.models.statements import (
    ErpEntry,
    SettlementImport,
    SettlementLine,
    SettlementRefusal,
)

__all__ = [
    "DailyTotal",
    "ErpEntry",
    "ErpPosting",
    "Mismatch",
    "MismatchEvent",
    "PostingAttempt",
    "ReconciliationRun",
    "SettlementImport",
    "SettlementLine",
    "SettlementRefusal",
]
