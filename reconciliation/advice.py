"""What each kind of mismatch means and what to do about it, in words. Nothing here decides."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from reconciliation.models import Mismatch

Words = str | Promise
Kind = Mismatch.Kind


@dataclass(frozen=True)
class Advice:
    """What has been found, and what a person does next."""

    meaning: Words
    next_step: Words


BY_KIND: dict[str, Advice] = {
    Kind.PAYMENT_WITHOUT_OPERATION: Advice(
        _("The provider paid money back that belongs to no return of ours."),
        _(
            "Find out who made it at the provider. Link it to the return it belongs to, or accept "
            "it with the reason it was made."
        ),
    ),
    Kind.PAID_NOT_AT_PROVIDER: Advice(
        _("We call this paid; the provider lists no such refund."),
        _("Ask the provider again: if the money has not left, it is owed again by itself."),
    ),
    Kind.AMOUNT_DIFFERS: Advice(
        _("The provider paid another amount than we asked for."),
        _(
            "Compare both figures. Chase the provider if it is their error; else have the "
            "difference corrected and name the correction."
        ),
    ),
    Kind.CURRENCY_DIFFERS: Advice(
        _("One side names another currency than we asked for."),
        _("Chase whoever wrote the other currency; name the correction once it is made."),
    ),
    Kind.MORE_THAN_ONE_PAYMENT: Advice(
        _("More than one payment left for one return. The customer may have the money twice."),
        _("Do not pay anything else for it. Chase the provider, or agree with the customer."),
    ),
    Kind.CREDIT_MISSING: Advice(
        _("The money has left, and the books have no credit for it."),
        _("Look for it in the ERP. If it was set aside, mend the cause and have it posted again."),
    ),
    Kind.CREDIT_WITHOUT_PAYMENT: Advice(
        _("The books have a credit that no payment of ours stands behind."),
        _("Have it reversed in the ERP and name the reversal, or link it to its return."),
    ),
    Kind.CREDIT_AMOUNT_DIFFERS: Advice(
        _("The books credit another amount than we paid."),
        _("Have the entry corrected in the ERP and name the correction."),
    ),
    Kind.MORE_THAN_ONE_CREDIT: Advice(
        _("The books have more than one credit for one return."),
        _("Have all but one reversed in the ERP; the next run then closes this by itself."),
    ),
    Kind.RETURNED_AFTER_SUCCESS: Advice(
        _("The money came back after it had been paid: the customer does not have it."),
        _(
            "It is owed again: a manager approves it again, perhaps to another account. This then "
            "closes by itself."
        ),
    ),
    Kind.STUCK_PAYMENT: Advice(
        _("The money may or may not have left. Do not pay it another way."),
        _(
            "Ask the provider again. If they show that nothing was paid, declare it unpaid on the "
            "page of the return."
        ),
    ),
    Kind.ERP_REFUSED: Advice(
        _("The books refuse this credit; the customer has the money."),
        _("Read the ERP's answer, mend the cause there, and have it posted again."),
    ),
    Kind.REFERENCE_DAMAGED: Advice(
        _("A reference was cut or changed on its way, so this cannot be matched by itself."),
        _("Compare it with the candidates and link it to the return it belongs to."),
    ),
    Kind.EVENT_NOT_UNDERSTOOD: Advice(
        _("The provider sent news that we cannot read."),
        _(
            "Read them below. Have them read again after an update; accept them if they are about "
            "nothing of ours."
        ),
    ),
    Kind.CHARGEBACK_BESIDE_REFUND: Advice(
        _("The customer's bank has taken the payment back, and we have refunded it as well."),
        _("Send the proof of our refund to the provider, and chase them until it is decided."),
    ),
}


def about(mismatch: Mismatch) -> Advice:
    """What this item means and what to do next."""
    return BY_KIND[mismatch.kind]
