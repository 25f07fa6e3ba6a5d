"""A worker is killed between the provider's effect and its answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import psycopg

from reconciliation.drills.own_processes import kill_own
from reconciliation.drills.report import Check
from reconciliation.drills.stage import POLL_SECONDS, Sale, Stage
from reconciliation.drills.verdict import books

PROCESSES = 4
# No more at once than the money queue has workers.
AT_ONCE = 4
# Longer than the worker waits: it never gets this answer.
SLOW_SECONDS = 60
# A payment must have reached a worker by then; at worst the sweep has taken it.
STRIKE_SECONDS = 60

_WAITING = """
    SELECT o.operation_key::text, a.worker
    FROM payments_paymentattempt a
    JOIN payments_paymenttask t ON t.id = a.row_id
    JOIN returns_refundoperation o ON o.id = t.operation_id
    WHERE o.operation_key = ANY(%s::uuid[]) AND a.step = 'started' AND a.purpose = 'send'
      AND NOT EXISTS (
        SELECT 1 FROM payments_paymentattempt e
        WHERE e.row_id = a.row_id AND e.lease = a.lease AND e.step = 'ended'
      )
"""


def run(stage: Stage) -> tuple[Check, ...]:
    """Whoever comes after the dead finds what the provider did, and pays nothing again."""
    sales = stage.sell()
    operations = stage.take_in(sales)
    stage.inspect(operations)
    killed = 0
    with stage.provider.silent(), psycopg.connect(stage.demo.database_url, autocommit=True) as db:
        for keys in _batches(list(operations)):
            killed += _pay_and_kill(stage, db, {key: operations[key] for key in keys})
            stage.say(f"workers killed: {killed} of {stage.size}")
        posted = stage.wait_until_posted(operations)
    return (
        Check("refunds whose worker was killed after the effect", stage.size, killed),
        Check("operations posted", stage.size, posted),
        *books(stage, operations),
    )


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), AT_ONCE):
        yield keys[start : start + AT_ONCE]


def _pay_and_kill(
    stage: Stage, db: psycopg.Connection[tuple[str, str]], operations: dict[str, Sale]
) -> int:
    """Approve, wait until the provider has paid, kill who waits for the answer; how many died."""
    for sale in operations.values():
        stage.provider.order_fault("slow", sale.payment, seconds=SLOW_SECONDS)
    stage.approve(operations)
    payments = {sale.payment for sale in operations.values()}
    struck: set[str] = set()
    deadline = time.monotonic() + STRIKE_SECONDS
    while len(struck) < len(operations) and time.monotonic() < deadline:
        paid = {refund["operation_key"] for refund in stage.provider.money_out(payments)}
        waiting = db.execute(_WAITING, [sorted(paid - struck)]).fetchall()
        struck |= {key for key, worker in waiting if kill_own(stage.demo, _pid(worker))}
        time.sleep(POLL_SECONDS)
    return len(struck)


def _pid(worker: str) -> int:
    """Of a worker's name, as it stands on an attempt: host and pid."""
    return int(worker.rpartition(":")[2])
