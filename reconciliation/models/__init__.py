"""The books: postings, what others say they did, and what a person has to close."""

from reconciliation.models.mismatches import Mismatch
from reconciliation.models.postings import ErpPosting, PostingAttempt
from reconciliation.models.statements import (
    ErpEntry,
    SettlementImport,
    SettlementLine,
    SettlementRefusal,
)

__all__ = [
    "ErpEntry",
    "ErpPosting",
    "Mismatch",
    "PostingAttempt",
    "SettlementImport",
    "SettlementLine",
    "SettlementRefusal",
]
