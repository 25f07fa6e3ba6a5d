"""The provider's endpoints: what each reads, and which changes each would make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from payments.sandbox import dialect, refusals
from payments.sandbox.clock import Clock
from payments.sandbox.exchange import Routes
from payments.sandbox.journal import Change, JsonObject
from payments.sandbox.ledger import BalanceLine, Ledger, Payment, Refund, new_id
from payments.sandbox.listing import expand, page
from payments.sandbox.webhooks import event

DECLINING_CARDS = "chargeDeclined"

_REFUND_PARAMETERS = frozenset(
    {"amount", "charge", "metadata", "payment_intent", "reason", "reverse_transfer"}
)
_REFUND_REASONS = frozenset({None, "duplicate", "fraudulent", "requested_by_customer"})
_INTENT_PARAMETERS = frozenset(
    {"amount", "currency", "description", "metadata", "expand"}
    | {"confirm", "capture_method", "off_session", "return_url", "error_on_requires_action"}
    | {"payment_method", "payment_method_types", "automatic_payment_methods"}
)
_RETRIEVE_PARAMETERS = frozenset({"expand"})


@dataclass(frozen=True)
class Written:
    """What a writing endpoint decided: the changes to commit and the object to answer with."""

    changes: list[Change]
    document: JsonObject = field(default_factory=dict)
    refusal: refusals.Refusal | None = None


Reader = Callable[..., JsonObject]
Writer = Callable[[JsonObject, str | None, str], Written]


class StripeApi:
    """Reads answer from the ledger; writes return changes and leave committing to the caller."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self.readers: Routes[Reader] = Routes(
            {
                "GET /v1/refunds": self.list_refunds,
                "GET /v1/refunds/<>": self.retrieve_refund,
                "GET /v1/payment_intents": self.list_payment_intents,
                "GET /v1/payment_intents/<>": self.retrieve_payment_intent,
                "GET /v1/charges/<>": self.retrieve_charge,
                "GET /v1/balance_transactions": self.list_balance_transactions,
                "GET /v1/balance_transactions/<>": self.retrieve_balance_transaction,
            }
        )
        self.writers: Routes[Writer] = Routes(
            {
                "POST /v1/refunds": self.create_refund,
                "POST /v1/payment_intents": self.create_payment_intent,
            }
        )

    # Refunds.

    def create_refund(self, parameters: JsonObject, key: str | None, mode: str) -> Written:
        """Of the amount asked for, or of all that is left; raises Refusal."""
        dialect.refuse_unknown(parameters, _REFUND_PARAMETERS)
        values = dialect.metadata(parameters)
        reason = dialect.optional_text(parameters, "reason")
        if reason not in _REFUND_REASONS:
            raise refusals.invalid(f"Invalid reason: {reason}", param="reason")
        asked_minor = (
            dialect.positive_integer(parameters, "amount") if "amount" in parameters else None
        )
        payment = self._payment_to_refund(parameters)
        self._refuse_by(mode, payment)
        now = self._clock.timestamp()
        refund = Refund(
            id=new_id("re"),
            payment=payment.id,
            charge=str(payment.charge),
            amount_minor=self._refundable_minor(payment, asked_minor),
            currency=payment.currency,
            status="pending" if mode == "pending" else "succeeded",
            created_at=now,
            idempotency_key=key,
            reason=reason,
            metadata=values,
            succeeded_at=None if mode == "pending" else now,
        )
        document = dialect.refund_object(refund)
        created = event("refund.created", document, created_at=now, key=key)
        return Written([self._ledger.as_it_is(refund), created], document)

    def _refuse_by(self, mode: str, payment: Payment) -> None:
        """What a fault says, and what the customer's bank has done."""
        if mode == "decline":
            raise refusals.card_declined()
        if mode == "insufficient_balance":
            raise refusals.insufficient_balance()
        if mode == "disputed" or payment.disputed:
            raise refusals.disputed(payment)

    def _payment_to_refund(self, parameters: JsonObject) -> Payment:
        intent_id = dialect.optional_text(parameters, "payment_intent")
        charge_id = dialect.optional_text(parameters, "charge")
        if intent_id is None and charge_id is None:
            raise refusals.invalid(
                "One of the following params should be provided for this request: "
                "payment_intent or charge.",
                code="parameter_missing",
            )
        if intent_id is not None:
            payment = self._payment(intent_id, "payment_intent")
        else:
            payment = self._charged(str(charge_id), "charge")
        if payment.charge is None:
            raise refusals.no_charge_to_refund(payment)
        if charge_id not in {None, payment.charge}:
            raise refusals.invalid("The charge is not one of this PaymentIntent.", param="charge")
        return payment

    def _refundable_minor(self, payment: Payment, asked_minor: int | None) -> int:
        remaining_minor = self._ledger.remaining_minor(payment)
        if remaining_minor == 0:
            raise refusals.already_refunded(payment)
        if asked_minor is not None and asked_minor > remaining_minor:
            raise refusals.above_remaining(payment, asked_minor, remaining_minor)
        return remaining_minor if asked_minor is None else asked_minor

    def retrieve_refund(self, parameters: JsonObject, refund_id: str) -> JsonObject:
        return self._expanded(dialect.refund_object(self._refund(refund_id)), parameters)

    def list_refunds(self, parameters: JsonObject) -> JsonObject:
        refunds = list(self._ledger.refunds.values())
        if intent_id := parameters.get("payment_intent"):
            refunds = self._ledger.refunds_of(self._payment(intent_id, "payment_intent"))
        if charge_id := parameters.get("charge"):
            charged = self._charged(charge_id, "charge")
            refunds = [refund for refund in refunds if refund.payment == charged.id]
        filters = frozenset({"payment_intent", "charge"})
        listed = page(
            refunds, parameters, url="/v1/refunds", shape=dialect.refund_object, filters=filters
        )
        return expand(listed, parameters, self.find)

    # Payments and their charges.

    def create_payment_intent(self, parameters: JsonObject, key: str | None, mode: str) -> Written:
        """Charged at once when `confirm` is true; raises Refusal."""
        dialect.refuse_unknown(parameters, _INTENT_PARAMETERS)
        confirm = dialect.boolean(parameters, "confirm")
        method = dialect.optional_text(parameters, "payment_method")
        if confirm and method is None:
            raise refusals.invalid(
                "You cannot confirm this PaymentIntent because it's missing a payment method.",
                code="payment_intent_unexpected_state",
            )
        declined = confirm and (mode == "decline" or DECLINING_CARDS in str(method))
        charged = confirm and not declined
        payment = Payment(
            id=new_id("pi"),
            amount_minor=dialect.positive_integer(parameters, "amount"),
            currency=dialect.currency_code(parameters),
            status=_intent_status(charged=charged, ready=method is not None and not declined),
            created_at=self._clock.timestamp(),
            charge=new_id("ch") if charged else None,
            payment_method=None if declined else method,
            description=dialect.optional_text(parameters, "description"),
            metadata=dialect.metadata(parameters),
        )
        answer = dialect.payment_intent_object(payment)
        expand(answer, parameters, lambda _: dialect.charge_object(payment, self._ledger))
        refusal = refusals.card_declined() if declined else None
        return Written([self._ledger.as_it_is(payment)], answer, refusal)

    def retrieve_payment_intent(self, parameters: JsonObject, intent_id: str) -> JsonObject:
        payment = self._payment(intent_id, "intent")
        return self._expanded(dialect.payment_intent_object(payment), parameters)

    def list_payment_intents(self, parameters: JsonObject) -> JsonObject:
        payments = list(self._ledger.payments.values())
        shape = dialect.payment_intent_object
        listed = page(payments, parameters, url="/v1/payment_intents", shape=shape)
        return expand(listed, parameters, self.find)

    def retrieve_charge(self, parameters: JsonObject, charge_id: str) -> JsonObject:
        charged = self._charged(charge_id, "id")
        return self._expanded(dialect.charge_object(charged, self._ledger), parameters)

    # The balance.

    def list_balance_transactions(self, parameters: JsonObject) -> JsonObject:
        lines = self._ledger.balance()
        for name, value_of in _BALANCE_FILTERS.items():
            if name in parameters:
                lines = [line for line in lines if value_of(line) == parameters[name]]
        listed = page(
            lines,
            parameters,
            url="/v1/balance_transactions",
            shape=dialect.balance_transaction_object,
            filters=frozenset(_BALANCE_FILTERS),
        )
        return expand(listed, parameters, self.find)

    def retrieve_balance_transaction(self, parameters: JsonObject, line_id: str) -> JsonObject:
        for line in self._ledger.balance():
            if line.id == line_id:
                return self._expanded(dialect.balance_transaction_object(line), parameters)
        raise refusals.no_such("balance transaction", line_id)

    # Finding things.

    def find(self, identifier: str) -> JsonObject:
        """The object behind an identifier, whatever its kind; raises Refusal."""
        kind = identifier.partition("_")[0]
        retrieve: dict[str, Reader] = {
            "re": self.retrieve_refund,
            "ch": self.retrieve_charge,
            "txn": self.retrieve_balance_transaction,
        }
        return retrieve.get(kind, self.retrieve_payment_intent)({}, identifier)

    def _expanded(self, document: JsonObject, parameters: JsonObject) -> JsonObject:
        dialect.refuse_unknown(parameters, _RETRIEVE_PARAMETERS)
        return expand(document, parameters, self.find)

    def _refund(self, refund_id: str) -> Refund:
        refund = self._ledger.refunds.get(refund_id)
        if refund is None:
            raise refusals.no_such("refund", refund_id)
        return refund

    def _payment(self, intent_id: str, param: str) -> Payment:
        payment = self._ledger.payments.get(intent_id)
        if payment is None:
            raise refusals.no_such("payment_intent", intent_id, param)
        return payment

    def _charged(self, charge_id: str, param: str) -> Payment:
        payment = self._ledger.payment_of_charge(charge_id)
        if payment is None:
            raise refusals.no_such("charge", charge_id, param)
        return payment


_BALANCE_FILTERS: dict[str, Callable[[BalanceLine], str]] = {
    "type": lambda line: line.type,
    "currency": lambda line: line.currency,
    "source": lambda line: line.source,
}


def _intent_status(*, charged: bool, ready: bool) -> str:
    if charged:
        return "succeeded"
    return "requires_confirmation" if ready else "requires_payment_method"
