"""Signed webhooks: events are stored with their cause and delivered until someone says 2xx."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from payments.sandbox.dialect import API_VERSION
from payments.sandbox.journal import Change, JsonObject
from payments.sandbox.ledger import new_id

# Half a second, then doubling up to a minute: about a quarter of an hour in all.
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 60.0
MAX_TRIES = 20
_ANSWER_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Endpoint:
    """Where events go, and the secret they are signed with."""

    url: str
    secret: str


@dataclass
class Delivery:
    event: JsonObject
    tries: int = 0
    delivered: bool = False
    due_at: float = 0.0  # on the monotonic clock

    @property
    def is_open(self) -> bool:
        return not self.delivered and self.tries < MAX_TRIES


def event(kind: str, document: JsonObject, *, created_at: int, key: str | None) -> Change:
    """An event about an object as it is now, to be committed together with what caused it."""
    return "event", {
        "id": new_id("evt"),
        "object": "event",
        "api_version": API_VERSION,
        "created": created_at,
        "data": {"object": document},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": new_id("req"), "idempotency_key": key},
        "type": kind,
    }


def signature_header(payload: bytes, secret: str) -> str:
    """Signed with the machine's time, whatever the sandbox's clock says: receivers check age."""
    signed_at = int(time.time())
    digest = hmac.new(secret.encode(), f"{signed_at}.".encode() + payload, hashlib.sha256)
    return f"t={signed_at},v1={digest.hexdigest()}"


class Courier:
    """Delivers in order of creation from one background thread; a failed one comes again later."""

    def __init__(
        self,
        endpoint: Endpoint | None,
        commit: Callable[[Sequence[Change]], None],
    ) -> None:
        self._endpoint = endpoint
        self._commit = commit
        self._stopped = False
        self._deliveries: dict[str, Delivery] = {}
        self._open: dict[str, Delivery] = {}
        self._changed = threading.Condition()
        self._held = False

    def record(self, facts: JsonObject) -> None:
        with self._changed:
            self._deliveries[facts["id"]] = self._open[facts["id"]] = Delivery(facts)
            self._changed.notify_all()

    def record_try(self, facts: JsonObject) -> None:
        with self._changed:
            delivery = self._deliveries.get(facts["event"])
            if delivery is None:  # on its way while everything was reset
                return
            delivery.tries += 1
            delivery.delivered = delivery.delivered or facts["delivered"]
            delay = min(FIRST_RETRY_SECONDS * 2 ** (delivery.tries - 1), LONGEST_RETRY_SECONDS)
            delivery.due_at = time.monotonic() + delay
            if not delivery.is_open:
                self._open.pop(facts["event"], None)

    def listed(self) -> list[JsonObject]:
        with self._changed:
            return [
                {"event": d.event, "tries": d.tries, "delivered": d.delivered}
                for d in self._deliveries.values()
            ]

    def clear(self) -> None:
        with self._changed:
            self._deliveries.clear()
            self._open.clear()
            self._held = False

    def hold(self, *, held: bool) -> None:
        """While held, events pile up and are sent only on demand."""
        with self._changed:
            self._held = held
            self._changed.notify_all()

    def start(self) -> None:
        if self._endpoint:
            threading.Thread(target=self._deliver_all, name="courier", daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def deliver_now(self, event_ids: Sequence[str], *, at_once: bool) -> list[JsonObject]:
        """Send these events in this order, repeats included, or all at the same moment.

        Raises KeyError for an unknown event. The status is None when no answer came.
        """
        events = [self._deliveries[event_id].event for event_id in event_ids]
        with ThreadPoolExecutor(max_workers=max(len(events), 1) if at_once else 1) as senders:
            statuses = list(senders.map(self._send, events))
        return [
            {"event": event["id"], "status": status}
            for event, status in zip(events, statuses, strict=True)
        ]

    def _deliver_all(self) -> None:
        while (delivery := self._next_due()) is not None:
            self._send(delivery.event)

    def _next_due(self) -> Delivery | None:
        """Wait for the next delivery that is due; None when the sandbox stops."""
        with self._changed:
            while not self._stopped:
                waiting = [] if self._held else self._open.values()
                delivery = min(waiting, key=lambda d: d.due_at, default=None)
                wait_seconds = delivery.due_at - time.monotonic() if delivery else None
                if delivery and wait_seconds is not None and wait_seconds <= 0:
                    return delivery
                self._changed.wait(wait_seconds)
        return None

    def _send(self, event: JsonObject) -> int | None:
        status = self._post(json.dumps(event, indent=2).encode())
        delivered = status in range(200, 300)
        self._commit([("delivery", {"event": event["id"], "delivered": delivered})])
        return status

    def _post(self, payload: bytes) -> int | None:
        """The status answered, or None when nobody answered."""
        if self._endpoint is None:
            return None
        address = urlsplit(self._endpoint.url)
        connection = http.client.HTTPConnection(address.netloc, timeout=_ANSWER_TIMEOUT_SECONDS)
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signature_header(payload, self._endpoint.secret),
        }
        path = f"{address.path or '/'}{'?' + address.query if address.query else ''}"
        try:
            connection.request("POST", path, payload, headers)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
