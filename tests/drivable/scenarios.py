"""Four ways to pay twice. Each raises Broken when the system under test does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.drivable.driver import FAILED, PAID, RefundSystem

CAPTURED_MINOR = 10_000
PART_MINOR = 3_000
PARTS = 8


class Broken(AssertionError):
    """The promise was broken; the text says how."""


def duplicate_messages(system: RefundSystem) -> None:
    """One return, told of three times: by e-mail, the same e-mail again, and at the counter."""
    order = system.sell(CAPTURED_MINOR)
    told = [("email", "m-1"), ("email", "m-1"), ("counter", "m-2")]
    refunds = [
        refund
        for channel, message in told
        if (refund := system.submit(order, channel=channel, message=f"{order}-{message}"))
    ]
    for refund in refunds:
        system.approve(refund, CAPTURED_MINOR)
    system.run_workers()
    _require_paid_once(system, order)


def simultaneous_requests(system: RefundSystem) -> None:
    """Counter and web see the same return at the same moment, and so do two managers."""
    order = system.sell(CAPTURED_MINOR)
    submissions = [
        partial(system.submit, order, channel=channel, message=f"{order}-{channel}")
        for channel in ("counter", "online")
    ]
    refunds = [refund for refund in system.at_once(submissions) if refund]
    system.at_once([partial(system.approve, refund, CAPTURED_MINOR) for refund in refunds])
    system.run_workers()
    _require_paid_once(system, order)


def partial_refunds(system: RefundSystem) -> None:
    """Eight people allow 30 % of one order each, at the same moment: three times 30 % fit."""
    order = system.sell(CAPTURED_MINOR)
    refunds = [
        system.submit(order, channel="email", message=f"{order}-{n}", part_minor=PART_MINOR)
        for n in range(PARTS)
    ]
    wanted = [partial(system.approve, refund, PART_MINOR) for refund in refunds if refund]
    granted = sum(map(bool, system.at_once(wanted)))
    system.run_workers()
    out = system.money_outs(order)
    if sum(out) > CAPTURED_MINOR:
        raise Broken(f"{sum(out)} of {CAPTURED_MINOR} left the provider")
    if (granted, out) != (3, [PART_MINOR] * 3):
        raise Broken(f"{granted} were granted and {out} left the provider; three fit")


def dropped_connection(system: RefundSystem) -> None:
    """The provider pays and the answer is lost. Whoever sees “failed” tries again, as people do."""
    order = system.sell(CAPTURED_MINOR)
    refund = system.submit(order, channel="online", message=f"{order}-m")
    if refund is None or not system.approve(refund, CAPTURED_MINOR):
        raise Broken("an ordinary refund was refused")
    system.lose_the_next_answer(order)
    system.run_workers()
    if system.state(refund) == FAILED:
        system.approve(refund, CAPTURED_MINOR)
        system.run_workers()
    _require_paid_once(system, order)
    if system.state(refund) != PAID:
        raise Broken(f"the money is out and the refund is {system.state(refund)}")


def _require_paid_once(system: RefundSystem, order: str) -> None:
    out = system.money_outs(order)
    if len(out) > 1:
        raise Broken(f"paid {len(out)} times: {out}")
    if out != [CAPTURED_MINOR]:
        raise Broken(f"{out} left the provider where {CAPTURED_MINOR} was owed")


Scenario = Callable[[RefundSystem], None]
SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        duplicate_messages,
        simultaneous_requests,
        partial_refunds,
        dropped_connection,
    )
}
