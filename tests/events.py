"""Webhooks as the provider makes them: events about refunds, and the deliveries it signs."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import time
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from payments.models import PaymentTask

_numbers = itertools.count(1)

# When the events of a test happened, unless it says otherwise.
HAPPENED_AT = datetime(2026, 4, 10, 17, 25, tzinfo=UTC)


def refund_event(
    task: PaymentTask,
    status: str,
    *,
    kind: str = "refund.updated",
    at: datetime = HAPPENED_AT,
    live_mode: bool = False,
    refund: str = "re_1",
    **facts: Any,
) -> dict[str, Any]:
    """What the provider says about the refund of a payment; `facts` replace those of the refund."""
    told = {
        "id": refund,
        "object": "refund",
        "amount": task.amount_minor,
        "currency": task.currency.lower(),
        "status": status,
        "metadata": {"payment_key": str(task.wire_key)},
    }
    return {
        "id": f"evt_{next(_numbers)}",
        "object": "event",
        "type": kind,
        "created": int(at.timestamp()),
        "livemode": live_mode,
        "data": {"object": told | facts},
    }


def signed(
    event: object, *, secret: str | None = None, age_seconds: int = 0
) -> tuple[str, dict[str, str]]:
    """Body and headers of a delivery, signed now or some time ago; text is sent as it is."""
    body = event if isinstance(event, str) else json.dumps(event)
    key = settings.STRIPE_WEBHOOK_SECRET if secret is None else secret
    signed_at = int(time.time()) - age_seconds
    signature = hmac.new(key.encode(), f"{signed_at}.{body}".encode(), hashlib.sha256).hexdigest()
    return body, {"Stripe-Signature": f"t={signed_at},v1={signature}"}
