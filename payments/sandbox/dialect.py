"""Stripe's dialect: form bodies with brackets in, JSON objects out."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from payments.sandbox.journal import JsonObject
from payments.sandbox.ledger import BalanceLine, Ledger, Payment, Refund
from payments.sandbox.refusals import invalid, missing, unknown_parameter

API_VERSION = "2026-10-28.endive"

_MAX_METADATA_KEYS = 50
_MAX_METADATA_VALUE_LENGTH = 500


def parse_form(text: str) -> JsonObject:
    """`a[b]=1&c[]=2` to `{"a": {"b": "1"}, "c": {"0": "2"}}`; every leaf stays text."""
    form: JsonObject = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        head, *rest = re.findall(r"[^\[\]]+|(?<=\[)(?=\])", name) or [name]
        branch, key = form, head
        for step in rest:
            if not isinstance(branch.get(key), dict):
                branch[key] = {}
            branch = branch[key]
            key = step or str(len(branch))
        branch[key] = value
    return form


def refuse_unknown(parameters: JsonObject, allowed: frozenset[str]) -> None:
    for name in parameters:
        if name not in allowed:
            raise unknown_parameter(name)


def positive_integer(parameters: JsonObject, name: str) -> int:
    """A required amount in minor units; raises Refusal."""
    text = parameters.get(name)
    if text is None or text == "":
        raise missing(name)
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise invalid(f"Invalid integer: {text}", code="parameter_invalid_integer", param=name)
    if int(text) < 1:
        raise invalid(
            "This value must be greater than or equal to 1.",
            code="parameter_invalid_integer",
            param=name,
        )
    return int(text)


def boolean(parameters: JsonObject, name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in {"true", "false"}:
        raise invalid(f"Invalid boolean: {text}", param=name)
    return bool(text == "true")


def is_currency(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z]{3}", text) is not None


def currency_code(parameters: JsonObject) -> str:
    text = parameters.get("currency")
    if not text:
        raise missing("currency")
    if not isinstance(text, str) or not is_currency(text):
        raise invalid(f"Invalid currency: {text}.", param="currency")
    return text.lower()


def optional_text(parameters: JsonObject, name: str) -> str | None:
    value = parameters.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid("Invalid string", param=name)
    return value or None


def metadata(parameters: JsonObject) -> dict[str, str]:
    values = parameters.get("metadata") or {}
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise invalid("Invalid hash: metadata values must be strings", param="metadata")
    if len(values) > _MAX_METADATA_KEYS:
        raise invalid("Metadata can have up to 50 keys", param="metadata")
    for key, value in values.items():
        if len(value) > _MAX_METADATA_VALUE_LENGTH:
            raise invalid(
                f"Metadata values can have up to 500 characters (key {key})", param="metadata"
            )
    return values


def refund_object(refund: Refund) -> JsonObject:
    document: JsonObject = {
        "id": refund.id,
        "object": "refund",
        "amount": refund.amount_minor,
        "balance_transaction": refund.balance_line if refund.succeeded_at is not None else None,
        "charge": refund.charge,
        "created": refund.created_at,
        "currency": refund.currency,
        "destination_details": {"card": {"type": "refund"}, "type": "card"},
        "metadata": refund.metadata,
        "payment_intent": refund.payment,
        "reason": refund.reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": refund.status,
        "transfer_reversal": None,
    }
    if refund.status == "pending":
        document["pending_reason"] = "processing"
    if refund.status == "failed":
        document["failure_reason"] = "unknown"
    if refund.status == "failed" and refund.succeeded_at is not None:
        document["failure_balance_transaction"] = refund.failure_line
    return document


def dispute_object(dispute_id: str, payment: Payment, amount_minor: int, at: int) -> JsonObject:
    return {
        "id": dispute_id,
        "object": "dispute",
        "amount": amount_minor,
        "charge": payment.charge,
        "created": at,
        "currency": payment.currency,
        "is_charge_refundable": False,
        "livemode": False,
        "metadata": {},
        "payment_intent": payment.id,
        "reason": "product_not_received",
        "status": "needs_response",
    }


def payment_intent_object(payment: Payment) -> JsonObject:
    received_minor = payment.amount_minor if payment.charge else 0
    return {
        "id": payment.id,
        "object": "payment_intent",
        "amount": payment.amount_minor,
        "amount_capturable": 0,
        "amount_received": received_minor,
        "capture_method": "automatic",
        "confirmation_method": "automatic",
        "created": payment.created_at,
        "currency": payment.currency,
        "customer": None,
        "description": payment.description,
        "latest_charge": payment.charge,
        "livemode": False,
        "metadata": payment.metadata,
        "next_action": None,
        "payment_method": payment.payment_method,
        "payment_method_types": ["card"],
        "status": payment.status,
    }


def charge_object(payment: Payment, ledger: Ledger) -> JsonObject:
    refunded_minor = ledger.refunded_minor(payment)
    return {
        "id": payment.charge,
        "object": "charge",
        "amount": payment.amount_minor,
        "amount_captured": payment.amount_minor,
        "amount_refunded": refunded_minor,
        "balance_transaction": payment.balance_line,
        "captured": True,
        "created": payment.created_at,
        "currency": payment.currency,
        "description": payment.description,
        "disputed": payment.disputed,
        "livemode": False,
        "metadata": payment.metadata,
        "paid": True,
        "payment_intent": payment.id,
        "payment_method": payment.payment_method,
        "refunded": refunded_minor == payment.amount_minor,
        "status": "succeeded",
    }


def balance_transaction_object(line: BalanceLine) -> JsonObject:
    return {
        "id": line.id,
        "object": "balance_transaction",
        "amount": line.amount_minor,
        "available_on": line.created_at,
        "balance_type": "payments",
        "created": line.created_at,
        "currency": line.currency,
        "description": line.payment.description,
        "exchange_rate": None,
        "fee": 0,
        "fee_details": [],
        "net": line.amount_minor,
        "reporting_category": line.type,
        "source": line.source,
        "status": "available",
        "type": line.type,
    }
