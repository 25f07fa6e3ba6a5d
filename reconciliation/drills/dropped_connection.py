"""The connection to the provider drops: before the refund was applied, or after."""

from __future__ import annotations

from itertools import cycle

from reconciliation.drills.report import Check
from reconciliation.drills.stage import Stage
from reconciliation.drills.verdict import books

PROCESSES = 4


def run(stage: Stage) -> tuple[Check, ...]:
    """Every refund is found or sent again under the same key, and is there once."""
    sales = stage.sell()
    payments = {sale.payment for sale in sales}
    operations = stage.take_in(sales)
    stage.inspect(operations)
    with stage.provider.silent():
        for sale, mode in zip(sales, cycle(("drop_before", "drop_after")), strict=False):
            stage.provider.order_fault(mode, sale.payment)
        stage.approve(operations)
        posted = stage.wait_until_posted(operations)
        dropped = stage.size - stage.provider.faults_left(payments)
    return (
        Check("connections dropped", stage.size, dropped),
        Check("operations posted", stage.size, posted),
        *books(stage, operations),
    )
