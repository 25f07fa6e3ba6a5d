"""Money that went back without us: it eats the same balance, and a person hears.

Refunds made at the provider, and chargebacks: what the customer's bank has taken back.
"""

from __future__ import annotations

from django.db.models import F

from payments import outbound
from payments.models import PaymentTask, ProviderEvent
from payments.outcomes import Accepted, Settled
from payments.providers.base import ProviderNews
from payments.settlement import lock_task
from returns import locking
from returns.models import ExternalRefund, OrderBalance, Tender, TenderBalance
from returns.states import TaskState

Standing = ProviderEvent.Standing


def record_external(provider: str, news: ProviderNews) -> tuple[Standing, str]:
    """Book a refund that was not made here, inside the caller's transaction.

    Only when it is final, on exactly one tender of ours, and within what that tender has left;
    everything else about a payment of ours is kept for a person.
    """
    tenders = list(Tender.objects.filter(provider=provider, payment__in=news.payments)[:2])
    if not tenders:
        return Standing.IGNORED, "a refund of a payment that is not ours"
    if isinstance(news.says, Accepted):
        return Standing.IGNORED, "a refund that was not made here, not final yet"
    if len(tenders) > 1:
        return Standing.NOT_UNDERSTOOD, "a refund of a payment that several tenders name"
    known = ExternalRefund.objects.filter(tender=tenders[0], reference=news.provider_refund)
    if not isinstance(news.says, Settled):
        if known.exists():
            return Standing.NOT_UNDERSTOOD, "a refund that was not made here has failed after all"
        return Standing.IGNORED, "a refund that was not made here did not work"
    return _book(tenders[0], news.says)


def record_chargeback(
    provider: str, payments: tuple[str, ...], taken: Settled
) -> tuple[Standing, str]:
    """Book what a bank has taken back, inside the caller's transaction.

    Beside a refund of ours the customer may have the money twice: that refund gets an alarm. Where
    we have refunded nothing, the chargeback eats the balance, so that nobody refunds it as well.
    """
    tenders = list(Tender.objects.filter(provider=provider, payment__in=payments)[:2])
    if not tenders:
        return Standing.IGNORED, "a chargeback of a payment that is not ours"
    if len(tenders) > 1:
        return Standing.NOT_UNDERSTOOD, "a chargeback of a payment that several tenders name"
    locking.lock_order(number=tenders[0].order.number)
    refund = (
        PaymentTask.objects.filter(tender=tenders[0])
        .exclude(state__in=[TaskState.DECLINED, TaskState.RETURNED])
        .order_by("-pk")
        .first()
    )
    if refund is None:
        return _book(tenders[0], taken)
    _, _, task = lock_task(refund.pk)
    outbound.raise_attention(task, "charged_back")
    return Standing.APPLIED, f"{taken.reference} was taken back beside our refund"


def _book(tender: Tender, refund: Settled) -> tuple[Standing, str]:
    order = tender.order
    locking.lock_order(number=order.number)
    amount_minor = refund.amount_minor
    mine = TenderBalance.objects.get(tender=tender)
    if ExternalRefund.objects.filter(tender=tender, reference=refund.reference).exists():
        return Standing.APPLIED, "booked before"
    if refund.currency != order.currency or not 0 < amount_minor <= mine.remaining_minor:
        return Standing.NOT_UNDERSTOOD, "a refund that was not made here exceeds what is left"
    ExternalRefund.objects.create(
        tender=tender,
        reference=refund.reference,
        amount_minor=amount_minor,
        source=ExternalRefund.Source.PROVIDER,
    )
    grown = {
        "external_minor": F("external_minor") + amount_minor,
        "refunded_minor": F("refunded_minor") + amount_minor,
    }
    OrderBalance.objects.filter(order=order).update(**grown)
    TenderBalance.objects.filter(pk=mine.pk).update(**grown)
    return Standing.APPLIED, "booked as a refund that was not made here"
