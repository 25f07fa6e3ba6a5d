"""The provider's books: payments that came in, refunds that went out. Amounts in minor units."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from payments.sandbox.journal import Change, JsonObject

RefundStatus = Literal["pending", "succeeded", "failed"]
LineType = Literal["charge", "refund", "refund_failure"]

# What may follow what when the control API moves a refund; a bank can send money back at any time.
REFUND_EDGES: dict[RefundStatus, frozenset[RefundStatus]] = {
    "pending": frozenset({"succeeded", "failed"}),
    "succeeded": frozenset({"failed"}),
    "failed": frozenset(),
}


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


@dataclass(frozen=True)
class Payment:
    """A payment intent together with its one charge; `charge` is None until money came in."""

    id: str
    amount_minor: int
    currency: str
    status: str
    created_at: int
    charge: str | None = None
    payment_method: str | None = None
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    disputed: bool = False

    @property
    def balance_line(self) -> str:
        return f"txn_{self.charge}"


@dataclass(frozen=True)
class Refund:
    id: str
    payment: str
    charge: str
    amount_minor: int
    currency: str
    status: RefundStatus
    created_at: int
    idempotency_key: str | None = None
    reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    succeeded_at: int | None = None
    failed_at: int | None = None

    @property
    def balance_line(self) -> str:
        return f"txn_{self.id}"

    @property
    def failure_line(self) -> str:
        return f"txn_{self.id}_failure"

    def moved(self, status: RefundStatus, at: int) -> Refund:
        """The same refund in its next state; the caller has checked REFUND_EDGES."""
        if status == "succeeded":
            return replace(self, status=status, succeeded_at=at)
        return replace(self, status=status, failed_at=at)


@dataclass(frozen=True)
class BalanceLine:
    """One movement of the merchant's balance: in for a charge, out for a refund, in again when a
    refund that had succeeded comes back."""

    id: str
    type: LineType
    amount_minor: int
    currency: str
    created_at: int
    payment: Payment
    refund: Refund | None = None

    @property
    def source(self) -> str:
        return self.refund.id if self.refund else str(self.payment.charge)


class Ledger:
    """Answers questions in memory and changes only by applying recorded changes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.payments: dict[str, Payment] = {}
        self.refunds: dict[str, Refund] = {}
        self._payment_of_charge: dict[str, str] = {}
        self._refunds_of_payment: dict[str, list[str]] = {}
        self._balance: list[BalanceLine] = []

    # Questions.

    def payment_of_charge(self, charge: str) -> Payment | None:
        payment = self._payment_of_charge.get(charge)
        return self.payments[payment] if payment else None

    def refunds_of(self, payment: Payment) -> list[Refund]:
        """In the order they were made."""
        return [self.refunds[refund] for refund in self._refunds_of_payment.get(payment.id, [])]

    def refunded_minor(self, payment: Payment) -> int:
        """Gone or on its way; a failed refund has given its amount back."""
        return sum(r.amount_minor for r in self.refunds_of(payment) if r.status != "failed")

    def remaining_minor(self, payment: Payment) -> int:
        return payment.amount_minor - self.refunded_minor(payment)

    def balance(self) -> list[BalanceLine]:
        """Every movement, oldest first; pending refunds have not moved anything yet."""
        return self._balance

    def money_out(self) -> Iterator[JsonObject]:
        """Every refund ever accepted, whatever became of it, in the order of acceptance."""
        for refund in self.refunds.values():
            yield {
                "refund": refund.id,
                "payment": refund.payment,
                "charge": refund.charge,
                "amount": refund.amount_minor,
                "currency": refund.currency,
                "idempotency_key": refund.idempotency_key,
                "operation_key": refund.metadata.get("operation_key"),
                "status": refund.status,
                "created": refund.created_at,
            }

    # Changes, to be committed by the caller.

    @staticmethod
    def as_it_is(item: Payment | Refund) -> Change:
        """The change that adds this payment or refund, or replaces its earlier state."""
        return ("payment" if isinstance(item, Payment) else "refund"), asdict(item)

    # Applying them.

    def record_payment(self, facts: JsonObject) -> None:
        payment = Payment(**facts)
        is_new = payment.id not in self.payments
        self.payments[payment.id] = payment
        if payment.charge and is_new:
            self._payment_of_charge[payment.charge] = payment.id
            self._balance.append(
                BalanceLine(
                    id=payment.balance_line,
                    type="charge",
                    amount_minor=payment.amount_minor,
                    currency=payment.currency,
                    created_at=payment.created_at,
                    payment=payment,
                )
            )

    def record_refund(self, facts: JsonObject) -> None:
        refund = Refund(**facts)
        before = self.refunds.get(refund.id)
        self.refunds[refund.id] = refund
        if before is None:
            self._refunds_of_payment.setdefault(refund.payment, []).append(refund.id)
        was_paid = before is not None and before.succeeded_at is not None
        if refund.succeeded_at is not None and not was_paid:
            self._add_refund_line(refund, "refund", -refund.amount_minor, refund.succeeded_at)
        if refund.failed_at is not None and was_paid:
            self._add_refund_line(refund, "refund_failure", refund.amount_minor, refund.failed_at)

    def _add_refund_line(self, refund: Refund, kind: LineType, amount_minor: int, at: int) -> None:
        payment = self.payments[refund.payment]
        line_id = refund.balance_line if kind == "refund" else refund.failure_line
        self._balance.append(
            BalanceLine(line_id, kind, amount_minor, refund.currency, at, payment, refund)
        )
