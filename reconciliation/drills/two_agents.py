"""Counter and online submit every order at the same moment; then both inspect, both approve."""

from __future__ import annotations

from reconciliation.drills.crowd import Answer
from reconciliation.drills.report import Check
from reconciliation.drills.stage import Stage
from reconciliation.drills.verdict import books

PROCESSES = 4


def run(stage: Stage) -> tuple[Check, ...]:
    """One operation, one refund and one entry for each order, whoever was first."""
    sales, crowd = stage.sell(), stage.crowd
    taken = crowd.together(
        [
            [
                stage.taking_in(sale, channel, f"{channel}-{sale.number}")
                for channel in ("counter", "online")
            ]
            for sale in sales
        ],
        stage.telling("submitted by both"),
    )
    operations = {
        answer.body["operation"]: sale
        for sale, pair in zip(sales, taken, strict=True)
        for answer in pair
        if answer.accepted
    }
    inspected = crowd.together(
        [[stage.inspecting(key)] * 2 for key in operations], stage.telling("inspected twice")
    )
    approved = crowd.together(
        [
            [stage.approving(key, sale.total, by) for by in ("manager", "manager2")]
            for key, sale in operations.items()
        ],
        stage.telling("approved twice"),
    )
    posted = stage.wait_until_posted(operations)
    return (
        Check("first submissions (201)", stage.size, _answered(taken, 201)),
        Check("second submissions that joined (200)", stage.size, _joined(taken)),
        Check("operations", stage.size, len(operations)),
        Check("inspections answered with 200", 2 * stage.size, _answered(inspected, 200)),
        Check("approvals answered with 200", 2 * stage.size, _answered(approved, 200)),
        Check("operations posted", stage.size, posted),
        *books(stage, operations),
    )


def _answered(groups: list[list[Answer]], status: int) -> int:
    return sum(answer.status == status for group in groups for answer in group)


def _joined(groups: list[list[Answer]]) -> int:
    return sum(bool(answer.body.get("joined")) for group in groups for answer in group)
