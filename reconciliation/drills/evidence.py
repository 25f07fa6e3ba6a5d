"""What the soak is judged by: the books of provider and ERP, and what the product says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from reconciliation.drills.balance_sheet import Due, Evidence, Standing
from reconciliation.drills.people import Case
from reconciliation.drills.stage import Stage
from reconciliation.drills.window import Window
from returns import money

_STANDINGS = """
    SELECT o.operation_key::text, o.state,
        (SELECT count(*) FROM payments_paymenttask t
          WHERE t.operation_id = o.id AND t.state = 'stuck')
        + (SELECT count(*) FROM reconciliation_erpposting p
          WHERE p.operation_id = o.id AND p.state = 'stuck')
    FROM returns_refundoperation o JOIN returns_order r ON r.id = o.order_id
    WHERE r.number LIKE %s
"""
_OPEN_ITEMS = """
    SELECT o.operation_key::text, m.kind
    FROM reconciliation_mismatch m
    JOIN returns_refundoperation o ON o.id = m.operation_id
    JOIN returns_order r ON r.id = o.order_id
    WHERE m.status = 'open' AND r.number LIKE %s
"""
_BALANCES = """
    SELECT t.payment, b.reserved_minor, b.refunded_minor
    FROM returns_orderbalance b
    JOIN returns_order r ON r.id = b.order_id
    JOIN returns_tender t ON t.order_id = r.id
    WHERE r.number LIKE %s
"""
# From the first approval to the credit in the books.
_SECONDS = """
    SELECT extract(epoch FROM posted.at - approved.at)::float
    FROM returns_refundoperation o
    JOIN returns_order r ON r.id = o.order_id
    CROSS JOIN LATERAL (
        SELECT min(t.created_at) AS at FROM payments_paymenttask t WHERE t.operation_id = o.id
    ) approved
    CROSS JOIN LATERAL (
        SELECT max(e.at) AS at FROM returns_operationevent e
        WHERE e.operation_id = o.id AND e.verb = 'post'
    ) posted
    WHERE r.number LIKE %s AND posted.at IS NOT NULL
    ORDER BY 1
"""


def gather(stage: Stage, window: Window, cases: Mapping[str, Case]) -> Evidence:
    """All of it as it stands now."""
    mine = [_numbers(stage)]
    items: defaultdict[str, list[str]] = defaultdict(list)
    for key, kind in window.rows(_OPEN_ITEMS, mine):
        items[key].append(kind)
    captured = {case.sale.payment: case.sale.total_minor for case in cases.values()}
    return Evidence(
        due=[_due(case) for case in cases.values() if case.agreed],
        captured=captured,
        refunds=stage.provider.money_out(set(captured)),
        entries=stage.erp.entries(set(cases)),
        standing={
            key: Standing(state, tuple(sorted(items[key])), stuck)
            for key, state, stuck in window.rows(_STANDINGS, mine)
        },
        balances={
            payment: (reserved, refunded)
            for payment, reserved, refunded in window.rows(_BALANCES, mine)
        },
    )


def seconds_to_resolve(stage: Stage, window: Window) -> list[float]:
    """Of every posted return, from its approval to its credit; shortest first."""
    return [seconds for (seconds,) in window.rows(_SECONDS, [_numbers(stage)])]


def _due(case: Case) -> Due:
    return Due(
        operation=case.operation,
        payment=case.sale.payment,
        amount_minor=money.parse(case.amount, case.sale.currency),
        currency=case.sale.currency,
        came_back=case.came_back,
    )


def _numbers(stage: Stage) -> str:
    return f"DRILL-{stage.run}-%"
