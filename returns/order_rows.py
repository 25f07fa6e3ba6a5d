"""The rows of an order beside the order itself, as stored or as given, to be compared."""

from __future__ import annotations

from dataclasses import dataclass

from returns.models import ExternalRefund, Order, OrderLine, Tender
from returns.order_facts import OrderFacts
from returns.refundable import spread_order_discount


@dataclass(frozen=True)
class OrderRows:
    """Lines, tenders, and refunds from before or beside us; given ones are not saved yet."""

    lines: list[OrderLine]
    tenders: list[Tender]
    refunds: list[ExternalRefund]

    @classmethod
    def stored(cls, order: Order) -> OrderRows:
        """What the database holds."""
        refunds = ExternalRefund.objects.filter(tender__order=order).select_related("tender")
        return cls(list(order.lines.all()), list(order.tenders.all()), list(refunds))

    @classmethod
    def given(cls, order: Order, facts: OrderFacts) -> OrderRows:
        """What facts without contradictions come to."""
        tenders = {
            tender.tender_id: Tender(order=order, **vars(tender)) for tender in facts.tenders
        }
        refunds = [
            ExternalRefund(
                tender=tenders[refund.tender_id],
                reference=refund.reference,
                amount_minor=refund.amount_minor,
                source=ExternalRefund.Source.ORDER_HISTORY,
            )
            for refund in facts.past_refunds
        ]
        return cls(_lines(order, facts), list(tenders.values()), refunds)

    @property
    def sold_facts(self) -> dict[str, list[str | int]]:
        """What returns and refunds rest on, by name; amounts in minor units."""
        lines: dict[str, list[str | int]] = {
            f"line {line.line_id}": [
                line.quantity,
                line.unit_price_minor,
                line.discount_minor,
                line.order_discount_minor,
                line.tax_minor,
            ]
            for line in self.lines
        }
        tenders: dict[str, list[str | int]] = {
            f"tender {tender.tender_id}": [tender.provider, tender.payment, tender.amount_minor]
            for tender in self.tenders
        }
        return lines | tenders

    @property
    def refund_amounts_minor(self) -> dict[tuple[str, str], int]:
        """The amount of each refund, by its tender and reference."""
        return {
            (refund.tender.tender_id, refund.reference): refund.amount_minor
            for refund in self.refunds
        }

    @property
    def names(self) -> set[tuple[str, ...]]:
        """Every row with the words about it that nothing rests on."""
        return {
            *(("line", line.line_id, line.sku, line.description) for line in self.lines),
            *(("tender", tender.tender_id, tender.label) for tender in self.tenders),
            *(("refund", *key) for key in self.refund_amounts_minor),
        }


def _lines(order: Order, facts: OrderFacts) -> list[OrderLine]:
    shares = spread_order_discount(facts.discount_minor, [line.total_minor for line in facts.lines])
    return [
        OrderLine(order=order, order_discount_minor=share, **vars(line))
        for line, share in zip(facts.lines, shares, strict=True)
    ]
