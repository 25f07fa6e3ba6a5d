"""Stripe, through its own SDK with its retries off: retrying is the protocol's business.

What each exception means was measured against the SDK. Only two kinds of answer are definite: a
refund object, and an error that says the request was refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from operator import index
from typing import Any
from uuid import UUID

import stripe
from django.conf import settings

from payments.outcomes import Absent, Accepted, Deferred, Outcome, Refused, Settled, Unknown
from payments.providers import stripe_balance
from payments.providers.base import (
    BadSignature,
    Movement,
    NotUnderstood,
    PaymentOrder,
    ProviderNews,
)

SIGNATURE_AGE_SECONDS = 300
CONNECT_SECONDS = 3
# Stripe wants these two with two decimals although they have none, and MGA without although ours
# has two (Stripe's list of special currency cases).
TIMES_HUNDRED_AT_STRIPE = frozenset({"ISK", "UGX"})
NOT_SUPPORTED = frozenset({"MGA"})
# Refusals that another try would meet again until a person has looked.
ALARMS = {
    "charge_already_refunded": "refunded_elsewhere",
    "charge_disputed": "charged_back",
    "refund_disputed_payment": "charged_back",
}
# A filter against equal amounts refuses a genuine second refund for a while; nothing was applied.
NOT_YET = frozenset({"duplicate_refund_amount"})
WAIT_FOR_THE_FILTER_SECONDS = 10 * 60
Refund = dict[str, Any]
# What an answer of another shape than documented raises, inside the SDK or here.
_ODD_ANSWER = (AttributeError, KeyError, TypeError, ValueError)
_ODD_EVENT = (*_ODD_ANSWER, OverflowError, OSError, RecursionError)
_REFUND_EVENTS = frozenset({"refund.created", "refund.updated", "refund.failed"})


class StripeProvider:
    """Refunds on charges and payment intents."""

    def __init__(self) -> None:
        read_seconds = settings.OUTBOUND_TIMING["call_seconds"] - CONNECT_SECONDS
        self._client = stripe.StripeClient(
            settings.STRIPE_API_KEY,
            base_addresses={"api": settings.STRIPE_API_BASE},
            max_network_retries=0,
            http_client=stripe.RequestsClient(timeout=(CONNECT_SECONDS, read_seconds)),
        )

    def pay(self, order: PaymentOrder) -> Outcome:
        """Create the refund. The amount is always named: no amount would mean everything left."""
        if order.currency in NOT_SUPPORTED:
            return Refused("currency_not_supported", f"Stripe counts {order.currency} differently.")
        params: Any = {
            **_payment(order),
            "amount": _wire_amount(order.amount_minor, order.currency),
            "metadata": {
                "operation_key": str(order.operation_key),
                "payment_key": str(order.wire_key),
                "reference": order.reference,
                "order": order.order,
            },
        }
        options: Any = {"idempotency_key": str(order.wire_key)}
        try:
            return _read_refund(self._client.v1.refunds.create(params, options).to_dict())
        except stripe.StripeError as error:
            return _outcome_of(error)
        except _ODD_ANSWER as error:
            return _as_unknown(error)

    def find(self, order: PaymentOrder) -> Outcome:
        """Ask for the refund we know, else list the payment's refunds and match our own key."""
        try:
            if order.provider_refund:
                known = self._client.v1.refunds.retrieve(order.provider_refund)
                return _read_refund(known.to_dict())
            return _the_one(list(self._ours(order)))
        except stripe.InvalidRequestError as error:
            # Nobody knows the payment we refer to: then nothing was ever refunded on it.
            return Absent() if error.code == "resource_missing" else _as_unknown(error)
        except stripe.StripeError as error:
            outcome = _outcome_of(error)
            return outcome if isinstance(outcome, Deferred) else _as_unknown(error)
        except _ODD_ANSWER as error:
            return _as_unknown(error)

    def movements(self, start: datetime, end: datetime) -> Iterator[Movement]:
        """Balance transactions of refunds and disputes."""
        return stripe_balance.movements(self._client, start, end, TIMES_HUNDRED_AT_STRIPE)

    def read_event(self, body: bytes, headers: Mapping[str, str]) -> ProviderNews:
        """Check signature and age over the raw body, then read it."""
        try:
            stripe.WebhookSignature.verify_header(
                body.decode(),
                headers.get("Stripe-Signature", ""),
                settings.STRIPE_WEBHOOK_SECRET,
                SIGNATURE_AGE_SECONDS,
            )
        except (stripe.SignatureVerificationError, UnicodeDecodeError) as error:
            raise BadSignature(str(error)) from error
        return self.reread_event(body.decode())

    def reread_event(self, body: str) -> ProviderNews:
        """Read an event whose signature was checked when it was stored."""
        try:
            event = json.loads(body)
            envelope = _envelope(event)
        except _ODD_EVENT as error:
            raise NotUnderstood(repr(error)[:500]) from error
        try:
            return _news(envelope, event["data"]["object"])
        except NotUnderstood as error:
            return replace(envelope, unread=str(error)[:500])
        except _ODD_EVENT as error:
            return replace(envelope, unread=repr(error)[:500])

    def _ours(self, order: PaymentOrder) -> Iterator[Refund]:
        params: Any = {**_payment(order), "limit": 100}
        for listed in self._client.v1.refunds.list(params).auto_paging_iter():
            refund = listed.to_dict()
            if (refund.get("metadata") or {}).get("payment_key") == str(order.wire_key):
                yield refund


def _payment(order: PaymentOrder) -> dict[str, str]:
    kind = "charge" if order.payment.startswith(("ch_", "py_")) else "payment_intent"
    return {kind: order.payment}


def _wire_amount(amount_minor: int, currency: str) -> int:
    return amount_minor * 100 if currency in TIMES_HUNDRED_AT_STRIPE else amount_minor


def _our_amount(amount: int, currency: str) -> int:
    """Minor units of ours. An amount that does not divide is no amount of ours: it is kept odd."""
    if currency not in TIMES_HUNDRED_AT_STRIPE:
        return amount
    whole, rest = divmod(amount, 100)
    return -1 if rest else whole


def _the_one(found: list[Refund]) -> Outcome:
    """The refund among several under one key; more than one that moves money is an alarm."""
    if not found:
        return Absent()
    alive = [refund for refund in found if refund.get("status") not in ("failed", "canceled")]
    if len(alive) > 1:
        ids = ", ".join(str(refund.get("id")) for refund in alive)
        return Unknown(f"several refunds under one key: {ids}", alarm="more_than_one_payment")
    return _read_refund((alive or found)[0])


def _read_refund(refund: Refund) -> Settled | Accepted | Refused | Unknown:
    """What a refund object says; one that cannot be read proves nothing."""
    try:
        reference, currency = refund["id"], refund["currency"].upper()
        amount_minor = _our_amount(index(refund["amount"]), currency)
    except (KeyError, AttributeError, TypeError) as error:
        return Unknown(f"an answer that is no refund: {error!r}")
    match refund.get("status"):
        case "succeeded":
            return Settled(reference, amount_minor, currency)
        case "pending" | "requires_action":
            return Accepted(reference, amount_minor, currency)
        case "failed" | "canceled" as status:
            return Refused(f"refund_{status}", f"{reference}: {refund.get('failure_reason')}")
        case other:
            return Unknown(f"{reference} has the unknown status {other}")


def _outcome_of(error: stripe.StripeError) -> Outcome:
    words = error.user_message or str(error)
    match error:
        case stripe.RateLimitError():
            return Deferred(words, _retry_after(error))
        case stripe.AuthenticationError() | stripe.PermissionError():
            return Deferred(words, stops_account=True)
        case stripe.IdempotencyError():
            return Unknown(f"this key was used for another request: {words}", alarm="key_conflict")
        case stripe.CardError() | stripe.InvalidRequestError():
            return _refusal_of(error, words)
        case _:
            return _as_unknown(error)


def _refusal_of(error: stripe.StripeError, words: str) -> Refused | Deferred:
    if error.code in NOT_YET:
        return Deferred(words, WAIT_FOR_THE_FILTER_SECONDS)
    return Refused(error.code or "invalid_request", words, _alarm_of(error))


def _alarm_of(error: stripe.StripeError) -> str:
    """We never ask for more than is left; who hears "too much" hears of somebody else's refund."""
    if isinstance(error, stripe.InvalidRequestError) and error.param == "amount":
        return "refunded_elsewhere"
    return ALARMS.get(error.code or "", "")


def _as_unknown(error: Exception) -> Unknown:
    status = error.http_status if isinstance(error, stripe.StripeError) else None
    return Unknown(f"{type(error).__name__} {status or ''}: {error}".strip())


def _retry_after(error: stripe.StripeError) -> int | None:
    value = (error.headers or {}).get("Retry-After", "")
    return int(value) if value.isdigit() else None


def _envelope(event: dict[str, Any]) -> ProviderNews:
    return ProviderNews(
        event_id=_storable(event["id"], 200),
        kind=_storable(event["type"], 100),
        occurred_at=datetime.fromtimestamp(event["created"], tz=UTC),
        live_mode=bool(event["livemode"]),
    )


def _news(envelope: ProviderNews, document: dict[str, Any]) -> ProviderNews:
    if envelope.kind.startswith("charge.dispute."):
        return _dispute_news(envelope, document)
    if envelope.kind not in _REFUND_EVENTS:
        return envelope
    outcome = _read_refund(document)
    if isinstance(outcome, Unknown):
        raise NotUnderstood(outcome.reason)
    key = (document.get("metadata") or {}).get("payment_key")
    return replace(
        envelope,
        wire_key=UUID(key) if key else None,
        provider_refund=_storable(document["id"], 200),
        payments=_payments_of(document),
        says=outcome,
    )


def _dispute_news(envelope: ProviderNews, dispute: dict[str, Any]) -> ProviderNews:
    """The customer's bank takes a payment back. One that is won is for a person to undo."""
    if dispute.get("status") == "won":
        raise NotUnderstood(f"dispute {dispute['id']} was won: the money is ours again")
    if not envelope.kind.endswith(".created"):
        return envelope
    currency = dispute["currency"].upper()
    taken = Settled(
        _storable(dispute["id"], 200), _our_amount(index(dispute["amount"]), currency), currency
    )
    return replace(envelope, payments=_payments_of(dispute), taken_back=taken)


def _payments_of(document: dict[str, Any]) -> tuple[str, ...]:
    return tuple(p for p in (document.get("payment_intent"), document.get("charge")) if p)


def _storable(text: str, longest: int) -> str:
    """A name as the database can hold it. Raises ValueError for any other."""
    if not 0 < len(text) <= longest or "\0" in text:
        raise ValueError(f"a name of {len(text)} characters")
    text.encode()
    return text
