"""The provider as a whole: authorisation, idempotency, endpoints, one commit per request."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from payments.sandbox import idempotency, refusals
from payments.sandbox.api import StripeApi, Writer, Written
from payments.sandbox.base import Control, Sandbox
from payments.sandbox.control import ProviderControl
from payments.sandbox.dialect import parse_form
from payments.sandbox.exchange import Answer, NoRouteError, Request, json_answer
from payments.sandbox.faults import TRANSPORT_MODES, Fault
from payments.sandbox.idempotency import SavedAnswer, SavedAnswers
from payments.sandbox.journal import Change, JsonObject
from payments.sandbox.ledger import Ledger
from payments.sandbox.webhooks import Courier, Endpoint

_MAX_KEY_LENGTH = 255


class Provider(Sandbox):
    fault_modes: ClassVar = TRANSPORT_MODES | {
        "decline",  # 402, saved under the key
        "insufficient_balance",  # 400, saved under the key: the shop's own balance is too low
        "disputed",  # 400, saved under the key: the customer's bank has the charge
        "same_amount",  # 400, not saved: a refund of this amount was made a moment ago
        "pending",  # the refund is accepted and not final
    }
    default_fault_target: ClassVar = "POST /v1/refunds"

    def __init__(self, data: Path, webhook: Endpoint | None = None) -> None:
        """Open the storage in `data`; events go to `webhook` when given."""
        self.ledger = Ledger()
        self._saved = SavedAnswers()
        self._keys_in_flight: set[str] = set()
        self.courier = Courier(webhook, self.commit)
        super().__init__(data)
        self._api = StripeApi(self.ledger, self.clock)

    def appliers(self) -> dict[str, Callable[[JsonObject], None]]:
        return super().appliers() | {
            "payment": self.ledger.record_payment,
            "refund": self.ledger.record_refund,
            "answer": self._saved.record,
            "event": self.courier.record,
            "delivery": self.courier.record_try,
        }

    def control_routes(self) -> dict[str, Control]:
        control = ProviderControl(
            self.ledger, self.courier, clock=self.clock, lock=self.lock, commit=self.commit
        )
        return super().control_routes() | control.routes()

    def start(self) -> None:
        self.courier.start()

    def stop(self) -> None:
        super().stop()
        self.courier.stop()

    def forget_everything(self) -> None:
        self.ledger.clear()
        self._saved.clear()
        self.courier.clear()

    def parameters(self, request: Request) -> object:
        return parse_form(request.body.decode("utf-8", "replace"))

    def refusal(self, fault: Fault) -> Answer | None:
        refused_before = {
            "error_before": refusals.out_of_order(),
            "rate_limit": refusals.too_many_requests(max(1, math.ceil(fault.seconds))),
            "unauthorized": refusals.no_api_key(),
            "same_amount": refusals.same_amount(),
        }
        refusal = refused_before.get(fault.mode)
        return refusal.answer() if refusal else None

    @contextmanager
    def under_way(self, request: Request) -> Iterator[Answer | None]:
        """A key is in flight until its request is answered, the wait of a slow one included."""
        key = request.idempotency_key
        if key is None or request.method != "POST":
            yield None
            return
        with self.lock:
            in_use = key in self._keys_in_flight
            self._keys_in_flight.add(key)
        if in_use:
            yield refusals.key_in_use().answer()
            return
        try:
            yield None
        finally:
            with self.lock:
                self._keys_in_flight.discard(key)

    def execute(self, request: Request, mode: str) -> Answer:
        try:
            _authorize(request)
            with self.lock:
                if request.method == "GET":
                    return self._read(request)
                return self._write_once(request, mode)
        except NoRouteError as error:
            return refusals.invalid(str(error), status=404).answer()
        except refusals.Refusal as refusal:
            return refusal.answer()

    def _read(self, request: Request) -> Answer:
        read, identifiers = self._api.readers.find(request)
        return json_answer(200, read(parse_form(request.query), *identifiers))

    def _write_once(self, request: Request, mode: str) -> Answer:
        """Replay what was saved under the key, or write and save in one commit."""
        write, _ = self._api.writers.find(request)
        parameters = parse_form(request.body.decode("utf-8", "replace"))
        key = request.idempotency_key
        if key is not None and not 0 < len(key) <= _MAX_KEY_LENGTH:
            raise refusals.invalid("Idempotency keys have 1 to 255 characters.")
        digest = idempotency.fingerprint(request.path, parameters)
        now = self.clock.timestamp()
        if key and (saved := self._saved.recall(key, now)):
            return _replayed(saved, digest)
        answer, changes = _decided(write, parameters, key, mode)
        if key:
            text = answer.body.decode()
            changes.append(self._saved.saved(SavedAnswer(key, digest, answer.status, text, now)))
        if changes:
            self.commit(changes)
        return replace(answer, headers={"Idempotency-Key": key}) if key else answer


def _decided(
    write: Writer, parameters: JsonObject, key: str | None, mode: str
) -> tuple[Answer, list[Change]]:
    """The answer and the changes to commit; a refusal before execution is raised: not saved."""
    try:
        written = write(parameters, key, mode)
    except refusals.Refusal as refusal:
        if not refusal.executed:
            raise
        written = Written([], refusal=refusal)
    refusal_shown = refusals.out_of_order() if mode == "error_after" else written.refusal
    if refusal_shown:
        return refusal_shown.answer(), written.changes
    return json_answer(200, written.document), written.changes


def _replayed(saved: SavedAnswer, digest: str) -> Answer:
    if saved.fingerprint != digest:
        raise refusals.other_parameters(saved.key)
    headers = {"Idempotency-Key": saved.key, "Idempotent-Replayed": "true"}
    return Answer(saved.status, saved.body.encode(), headers=headers)


def _authorize(request: Request) -> None:
    """Any key will do, but there must be one; raises Refusal."""
    _, _, credentials = request.headers.get("authorization", "").partition(" ")
    if not credentials.strip():
        raise refusals.no_api_key()
