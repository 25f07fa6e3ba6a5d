"""Goods and evidence."""

from returns.models.evidence import (
    Finding,
    Inspection,
    IntakeMessage,
    OperationEvent,
    RefusedAttempt,
)
from returns.models.operations import Channel, Claim, RefundOperation
from returns.models.orders import (
    ExternalRefund,
    Order,
    OrderBalance,
    OrderLine,
    Tender,
    TenderBalance,
)

__all__ = [
    "Channel",
    "Claim",
    "ExternalRefund",
    "Finding",
    "Inspection",
    "IntakeMessage",
    "OperationEvent",
    "Order",
    "OrderBalance",
    "OrderLine",
    "RefundOperation",
    "RefusedAttempt",
    "Tender",
    "TenderBalance",
]
