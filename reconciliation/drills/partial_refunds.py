"""Eight approvals of 30 % each at the same moment, on orders of one tender."""

from __future__ import annotations

from reconciliation.drills.crowd import Answer, Call
from reconciliation.drills.report import Check
from reconciliation.drills.stage import Sale, Stage, require
from reconciliation.drills.verdict import books

AT_ONCE = 8
PROCESSES = AT_ONCE
FIT = 3
# Currency -> what was paid, 30 % of it, and what three times 30 % leave.
AMOUNTS = {
    "EUR": ("100.00", "30.00", "10.00"),
    "JPY": ("1000", "300", "100"),
    "KWD": ("10.000", "3.000", "1.000"),
}


def run(stage: Stage) -> tuple[Check, ...]:
    """Exactly three fit; the others are refused with what is left, and nothing is paid twice."""
    sales = stage.sell([(currency, total) for currency, (total, *_) in AMOUNTS.items()])
    operations = _goodwill(stage, sales)
    answers = stage.crowd.together(
        [[stage.approving(key, part_of(sale)) for key in operations[sale]] for sale in sales],
        stage.telling("eight approvals at once"),
    )
    agreed = {
        key: sale
        for sale, group in zip(sales, answers, strict=True)
        for key, answer in zip(operations[sale], group, strict=True)
        if answer.accepted
    }
    three = sum(sum(answer.accepted for answer in group) == FIT for group in answers)
    told = sum(
        sum(_told_the_rest(answer, sale) for answer in group) == AT_ONCE - FIT
        for sale, group in zip(sales, answers, strict=True)
    )
    posted = stage.wait_until_posted(agreed)
    withdrawn = stage.withdraw(
        key for keys in operations.values() for key in set(keys) - set(agreed)
    )
    return (
        Check("orders with exactly three approvals", stage.size, three),
        Check("orders whose other five were told the rest (409)", stage.size, told),
        Check("approvals in all", FIT * stage.size, len(agreed)),
        Check("operations posted", FIT * stage.size, posted),
        Check("others withdrawn at the end", (AT_ONCE - FIT) * stage.size, withdrawn),
        *books(stage, agreed, part_of),
    )


def _goodwill(stage: Stage, sales: list[Sale]) -> dict[Sale, list[str]]:
    """Eight inspected operations for each sale, each over 30 % of it."""
    messages = [asking_for_a_part(stage, sale, n) for sale in sales for n in range(AT_ONCE)]
    taken = stage.crowd.spread(messages, stage.telling("taken in"))
    require(taken, "taking goodwill in")
    keys = [answer.body["operation"] for answer in taken]
    stage.inspect(keys, goods=False)
    return {sale: keys[AT_ONCE * place : AT_ONCE * (place + 1)] for place, sale in enumerate(sales)}


def asking_for_a_part(stage: Stage, sale: Sale, n: int) -> Call:
    """The n-th message about 30 % of a sale, as goodwill for a case of its own."""
    goodwill = {"case": f"{sale.number}-{n}", "amount": part_of(sale)}
    return stage.taking_in(sale, "phone", f"call-{sale.number}-{n}", goodwill=goodwill)


def part_of(sale: Sale) -> str:
    """30 % of what was paid, in major units."""
    return AMOUNTS[sale.currency][1]


def _told_the_rest(answer: Answer, sale: Sale) -> bool:
    said = (answer.status, answer.body.get("code"), answer.body.get("remaining"))
    return said == (409, "insufficient_balance", AMOUNTS[sale.currency][2])
