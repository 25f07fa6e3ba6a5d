"""The control API of the provider, for tests, drills and demos. Everything starts /_control/."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from threading import RLock
from urllib.parse import parse_qs

from payments.sandbox.base import Control, one_of
from payments.sandbox.clock import Clock
from payments.sandbox.currencies import in_major_units
from payments.sandbox.dialect import dispute_object, is_currency, refund_object
from payments.sandbox.exchange import Answer, BadRequestError, Request, json_answer, refused
from payments.sandbox.journal import Change
from payments.sandbox.ledger import REFUND_EDGES, BalanceLine, Ledger, Payment, new_id
from payments.sandbox.webhooks import Courier, event

SETTLEMENT_COLUMNS = (
    *("line_id", "type", "refund", "payment"),
    *("amount", "currency", "created", "operation_key"),
)


class ProviderControl:
    def __init__(
        self,
        ledger: Ledger,
        courier: Courier,
        *,
        clock: Clock,
        lock: RLock,
        commit: Callable[[Sequence[Change]], None],
    ) -> None:
        self._ledger = ledger
        self._courier = courier
        self._clock = clock
        self._lock = lock
        self._commit = commit

    def routes(self) -> dict[str, Control]:
        return {
            "GET /_control/ledger": self._show_ledger,
            "GET /_control/settlement.csv": self._export_settlement,
            "POST /_control/refunds/<>": self._move_refund,
            "POST /_control/payments": self._seed_payments,
            "POST /_control/disputes": self._dispute,
            "GET /_control/events": self._list_events,
            "POST /_control/events": self._deliver_events,
            "POST /_control/webhooks": self._hold_webhooks,
        }

    def _show_ledger(self, request: Request) -> Answer:
        """Every money-out; `?operation_key=` narrows it to one operation."""
        with self._lock:
            refunds = list(self._ledger.money_out())
        wanted = parse_qs(request.query).get("operation_key")
        if wanted:
            refunds = [refund for refund in refunds if refund["operation_key"] in wanted]
        return json_answer(200, refunds)

    def _export_settlement(self, request: Request) -> Answer:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(SETTLEMENT_COLUMNS)
        with self._lock:
            writer.writerows(map(_settlement_row, self._ledger.balance()))
        return Answer(200, text.getvalue().encode(), content_type="text/csv; charset=utf-8")

    def _move_refund(self, request: Request, refund_id: str) -> Answer:
        """To succeeded or failed, as the bank would, with the event that tells it."""
        status = one_of(request.json_object(), "status", ("succeeded", "failed"))
        with self._lock:
            refund = self._ledger.refunds.get(refund_id)
            if refund is None:
                return refused(404, "unknown_refund", f"no refund {refund_id}")
            if status != refund.status:
                if status not in REFUND_EDGES[refund.status]:
                    return refused(409, "wrong_state", f"{refund_id} is {refund.status}")
                now = self._clock.timestamp()
                refund = refund.moved(status, now)
                kind = "refund.failed" if status == "failed" else "refund.updated"
                told = event(kind, refund_object(refund), created_at=now, key=None)
                self._commit([self._ledger.as_it_is(refund), told])
            return json_answer(200, refund_object(refund))

    def _dispute(self, request: Request) -> Answer:
        """`{"payment", "amount"}`: the customer's bank takes it back, and the event that tells."""
        match request.json_object():
            case {"payment": str(name), "amount": int(amount_minor)} if amount_minor > 0:
                pass
            case other:
                raise BadRequestError(f"not a dispute (amount in minor units): {other}")
        with self._lock:
            payment = self._ledger.payments.get(name)
            if payment is None:
                return refused(404, "unknown_payment", f"no payment {name}")
            now = self._clock.timestamp()
            document = dispute_object(new_id("dp"), payment, amount_minor, now)
            told = event("charge.dispute.created", document, created_at=now, key=None)
            self._commit([self._ledger.as_it_is(replace(payment, disputed=True)), told])
            return json_answer(200, document)

    def _seed_payments(self, request: Request) -> Answer:
        """Succeeded payments under given names, many at once: the past of imported orders."""
        wanted = request.json()
        if not isinstance(wanted, list):
            raise BadRequestError("the body must be a list of {payment, amount, currency}")
        with self._lock:
            payments = [self._seeded(facts) for facts in wanted]
            changed = [
                p
                for p in payments
                if (old := self._ledger.payments.get(p.id))
                and (old.amount_minor, old.currency) != (p.amount_minor, p.currency)
            ]
            if changed:
                return refused(409, "payment_exists", "with another amount", payment=changed[0].id)
            new = {p.id: p for p in payments if p.id not in self._ledger.payments}
            if new:
                self._commit([self._ledger.as_it_is(payment) for payment in new.values()])
        return json_answer(200, {"created": len(new), "unchanged": len(payments) - len(new)})

    def _seeded(self, facts: object) -> Payment:
        match facts:
            case {"payment": str(payment), "amount": int(amount_minor), "currency": str(currency)}:
                if payment and amount_minor > 0 and is_currency(currency):
                    return Payment(
                        id=payment,
                        amount_minor=amount_minor,
                        currency=currency.lower(),
                        status="succeeded",
                        created_at=self._clock.timestamp(),
                        charge=new_id("ch"),
                        payment_method="pm_card_visa",
                    )
        raise BadRequestError(f"not a payment (amount in minor units): {facts}")

    def _list_events(self, request: Request) -> Answer:
        return json_answer(200, self._courier.listed())

    def _deliver_events(self, request: Request) -> Answer:
        """`{"deliver": [event ids], "at_once": false}`: any order, any number of times."""
        order = request.json_object()
        event_ids, at_once = order.get("deliver"), order.get("at_once", False)
        if not isinstance(event_ids, list) or not isinstance(at_once, bool):
            raise BadRequestError("deliver must be a list of event ids, at_once true or false")
        try:
            return json_answer(200, self._courier.deliver_now(event_ids, at_once=at_once))
        except KeyError as unknown:
            return refused(404, "unknown_event", f"no event {unknown}")

    def _hold_webhooks(self, request: Request) -> Answer:
        """`{"hold": true}` keeps events back until `{"hold": false}` or a delivery on demand."""
        held = one_of(request.json_object(), "hold", (True, False))
        self._courier.hold(held=bool(held))
        return json_answer(200, {"hold": held})


def _settlement_row(line: BalanceLine) -> list[str | None]:
    refund = line.refund
    return [
        line.id,
        line.type,
        refund.id if refund else None,
        line.payment.id,
        in_major_units(line.amount_minor, line.currency),
        line.currency.upper(),
        datetime.fromtimestamp(line.created_at, tz=UTC).isoformat().replace("+00:00", "Z"),
        refund.metadata.get("operation_key") if refund else None,
    ]
