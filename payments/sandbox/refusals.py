"""The provider's error objects, with the types, codes and wording of the real one."""

from __future__ import annotations

from collections.abc import Mapping

from payments.sandbox.currencies import in_major_units
from payments.sandbox.exchange import Answer, json_answer
from payments.sandbox.ledger import Payment


class Refusal(Exception):
    """A request that is answered with an error.

    `executed` says that the execution had begun, so that the answer is saved under the key.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        executed: bool = False,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.executed = executed
        self._headers = headers
        named = {"code": code, "param": param}
        self._error = {"type": kind, "message": message} | {k: v for k, v in named.items() if v}

    def answer(self) -> Answer:
        return json_answer(self.status, {"error": self._error}, self._headers)


def invalid(
    message: str,
    *,
    status: int = 400,
    executed: bool = False,
    code: str | None = None,
    param: str | None = None,
) -> Refusal:
    return Refusal(
        status, "invalid_request_error", message, executed=executed, code=code, param=param
    )


def no_api_key() -> Refusal:
    return invalid(
        "You did not provide an API key. You need to provide your API key in the Authorization "
        "header, using Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
        status=401,
    )


def no_such(noun: str, identifier: str, param: str = "id") -> Refusal:
    return invalid(
        f"No such {noun}: '{identifier}'", status=404, code="resource_missing", param=param
    )


def missing(param: str) -> Refusal:
    return invalid(f"Missing required param: {param}.", code="parameter_missing", param=param)


def unknown_parameter(param: str) -> Refusal:
    return invalid(f"Received unknown parameter: {param}", code="parameter_unknown", param=param)


def already_refunded(payment: Payment) -> Refusal:
    return invalid(
        f"Charge {payment.charge} has already been refunded.",
        executed=True,
        code="charge_already_refunded",
    )


def above_remaining(payment: Payment, asked_minor: int, remaining_minor: int) -> Refusal:
    asked, remaining = (
        f"{in_major_units(minor, payment.currency)} {payment.currency.upper()}"
        for minor in (asked_minor, remaining_minor)
    )
    return invalid(
        f"Refund amount ({asked}) is greater than unrefunded amount on charge ({remaining})",
        executed=True,
        param="amount",
    )


def no_charge_to_refund(payment: Payment) -> Refusal:
    return invalid(
        f"This PaymentIntent ({payment.id}) does not have a successful charge to refund.",
        executed=True,
        param="payment_intent",
    )


def card_declined() -> Refusal:
    return Refusal(
        402, "card_error", "Your card was declined.", executed=True, code="card_declined"
    )


def insufficient_balance() -> Refusal:
    return invalid(
        "You do not have enough available funds in your balance to make this refund.",
        executed=True,
        code="balance_insufficient",
    )


def disputed(payment: Payment) -> Refusal:
    return invalid(
        f"Charge {payment.charge} has been charged back; cannot issue a refund.",
        executed=True,
        code="charge_disputed",
    )


def same_amount() -> Refusal:
    """Not the real provider's: others refuse a second refund of an amount for some minutes."""
    return invalid(
        "A refund of this amount was made on this payment a moment ago. Try again later.",
        code="duplicate_refund_amount",
    )


def key_in_use() -> Refusal:
    return Refusal(
        409,
        "idempotency_error",
        "There is currently another in-progress request using this Idempotency-Key.",
        code="idempotency_key_in_use",
    )


def other_parameters(key: str) -> Refusal:
    return Refusal(
        400,
        "idempotency_error",
        "Keys for idempotent requests can only be used with the same parameters they were first "
        f"used with. Try using a key other than '{key}' if you meant to execute a different "
        "request.",
    )


def too_many_requests(retry_after_seconds: int) -> Refusal:
    return Refusal(
        429,
        "invalid_request_error",
        "Request rate limit exceeded.",
        headers={"Retry-After": str(retry_after_seconds)},
        code="rate_limit",
    )


def out_of_order() -> Refusal:
    return Refusal(500, "api_error", "Sorry, something went wrong on our end.", executed=True)
