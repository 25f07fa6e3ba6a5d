"""All the steps together, and where stories begin."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.stateful import goods
from tests.stateful.books import Books
from tests.stateful.desk import Decisions, Intake, Payout
from tests.stateful.wire import Wire

PRICES = st.sampled_from(sorted(goods.PRICES))


class AtTheDesk(Intake, Decisions, Payout, Books):
    """Two returns have been asked for, and one of them has been inspected."""

    @initialize(prices=PRICES, paid_with=st.sampled_from(sorted(goods.TENDERS)))
    def asked_for(self, prices: str, paid_with: str) -> None:
        self.begin(prices, paid_with)
        self.message(ask="a shirt", channel="online", number=9, by="web")
        self.message(ask="the lamp", channel="counter", number=9, by="desk")
        self.inspect(which=0, by="desk", bad="none")


class Approved(Intake, Decisions, Payout, Wire):
    """Steps to an approved return; more may be taken in later."""

    def approved(self, number: int, ask: str, tender: str = "") -> None:
        self.message(ask=ask, channel="online", number=9 + number, by="web")
        self.inspect(which=number, by="desk", bad="none")
        for manager in ("anna", "boris"):
            self.approve(which=number, by=manager, how_much="all", tender=tender, seen="")
        self.look()


class OnTheWire(Approved):
    """Two returns are approved; their money is about to leave."""

    # What this is about comes more often than the rest.
    work_again, sweep_again, wakes_again = Wire.work, Wire.sweep, Wire.worker_wakes

    @initialize(prices=PRICES, paid_with=st.sampled_from(["card", "card and cash", "two cards"]))
    def two_approved(self, prices: str, paid_with: str) -> None:
        self.begin(prices, paid_with)
        self.approved(0, "two shirts")
        self.approved(1, "the lamp", tender="last")


class InTheBooks(Approved, Books):
    """A return is paid; its credit is about to be written."""

    post_more, post_still_more = Books.post, Books.post

    @initialize(paid_with=st.sampled_from(["card", "cash"]), unique=st.booleans())
    def one_paid(self, paid_with: str, unique: bool) -> None:
        self.begin("cheap", paid_with)
        self.world.erp.unique_reference(unique)
        self.approved(0, "a shirt")
        self.work(which=0, wrong=[], ends="done")
        for step in ("begin", "confirm"):
            self.hand_over(which=0, by="desk", step=step, receipt="receipt 0")
        self.look()
