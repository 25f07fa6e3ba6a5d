"""The formats that come with the product. A new source is one more declaration.

Sources: Stripe's and Adyen's public descriptions of their reports; confirm each with a file of your
own account before relying on it.
"""

from __future__ import annotations

from datetime import timedelta, timezone

from reconciliation.statements.formats import Format, LineKind, Signed, TwoColumns

# The sandbox's own export.
SANDBOX = Format(
    provider="stripe",
    kinds={
        "payment": LineKind.OTHER,
        "charge": LineKind.OTHER,
        "refund": LineKind.REFUND,
        "refund_failure": LineKind.REFUND_RETURNED,
    },
    kind="type",
    amount=Signed("amount"),
    currency="currency",
    at="created",
    refund="refund",
    payment="payment",
    operation="operation_key",
    line_id="line_id",
)

# Itemised balance change from activity, and itemised payout reconciliation: the same columns.
STRIPE = Format(
    provider="stripe",
    kinds={
        "charge": LineKind.OTHER,
        "charge_failure": LineKind.OTHER,
        "refund": LineKind.REFUND,
        "refund_failure": LineKind.REFUND_RETURNED,
        "partial_capture_reversal": LineKind.OTHER,
        "dispute": LineKind.CHARGEBACK,
        "dispute_reversal": LineKind.CHARGEBACK_REVERSED,
        "fee": LineKind.OTHER,
        "network_cost": LineKind.OTHER,
        "payout": LineKind.OTHER,
        "payout_reversal": LineKind.OTHER,
        "payout_minimum_balance_hold": LineKind.OTHER,
        "payout_minimum_balance_release": LineKind.OTHER,
        "topup": LineKind.OTHER,
        "topup_reversal": LineKind.OTHER,
        "transfer": LineKind.OTHER,
        "transfer_reversal": LineKind.OTHER,
        "other_adjustment": LineKind.OTHER,
        "risk_reserved_funds": LineKind.OTHER,
        "tax": LineKind.OTHER,
        "contribution": LineKind.OTHER,
    },
    kind="reporting_category",
    amount=Signed("gross"),
    currency="currency",
    at="created_utc",
    at_pattern="%Y-%m-%d %H:%M:%S",
    refund="source_id",
    payment="payment_intent_id",
    operation="refund_metadata[operation_key]",
    optional=frozenset({"refund_metadata[operation_key]", "payment_intent_id"}),
    line_id="balance_transaction_id",
)


def _hours(hours: int) -> timezone:
    return timezone(timedelta(hours=hours))


# Settlement details. Its lines have no number of their own; the modification is the refund.
ADYEN = Format(
    provider="adyen",
    kinds={
        "Settled": LineKind.OTHER,
        "SettledReversed": LineKind.OTHER,
        "Refunded": LineKind.REFUND,
        "RefundedReversed": LineKind.REFUND_RETURNED,
        "Chargeback": LineKind.CHARGEBACK,
        "SecondChargeback": LineKind.CHARGEBACK,
        "ChargebackReversed": LineKind.CHARGEBACK_REVERSED,
        "Fee": LineKind.OTHER,
        "MiscCosts": LineKind.OTHER,
        "MerchantPayout": LineKind.OTHER,
        "Balancetransfer": LineKind.OTHER,
        "DepositCorrection": LineKind.OTHER,
        "InvoiceDeduction": LineKind.OTHER,
        "ManualCorrected": LineKind.OTHER,
        "MatchedStatement": LineKind.OTHER,
        "BankInstructionReturned": LineKind.OTHER,
        "ReserveAdjustment": LineKind.OTHER,
    },
    kind="Type",
    amount=TwoColumns(out="Gross Debit (GC)", came="Gross Credit (GC)"),
    currency="Gross Currency",
    at="Creation Date",
    at_pattern="%Y-%m-%d %H:%M:%S",
    zone_column="TimeZone",
    zones={
        "UTC": _hours(0),
        "GMT": _hours(0),
        "WET": _hours(0),
        "BST": _hours(1),
        "CET": _hours(1),
        "CEST": _hours(2),
        "EST": _hours(-5),
        "EDT": _hours(-4),
        "PST": _hours(-8),
        "PDT": _hours(-7),
    },
    refund="Modification Reference",
    payment="Psp Reference",
    operation="Modification Merchant Reference",
)

FORMATS = {"sandbox": SANDBOX, "stripe": STRIPE, "adyen": ADYEN}
