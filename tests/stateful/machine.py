"""All the steps together, and where stories begin."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.stateful import goods
from tests.stateful.books import Books
from tests.stateful.desk import Desk

PRICES = st.sampled_from(sorted(goods.PRICES))
PAID_WITH = st.sampled_from(["card", "two cards", "card and cash", "card", "cash"])


class Service(Desk, Books):
    """The whole service. A story begins with one return; see the starts further along."""

    @initialize(
        prices=PRICES,
        paid_with=PAID_WITH,
        unique=st.booleans(),
        ask=st.sampled_from(["a shirt", "two shirts", "everything"]),
    )
    def an_order_is_sold(self, prices: str, paid_with: str, unique: bool, ask: str) -> None:
        self.begin(prices, paid_with)
        self.world.erp.unique_reference(unique)
        self.message(ask=ask, channel="online", number=9, by="web")
        self.go_on()

    def go_on(self) -> None:
        """As far as stories of this kind begin."""


class AtTheDesk(Service):
    """A return has been asked for."""


class OnTheWire(Service):
    """A return is approved; its money is about to leave."""

    def go_on(self) -> None:
        self.inspect(which=0, by="desk", bad="none")
        for manager in ("anna", "boris"):
            self.approve(which=0, by=manager, how_much="all", tender="", seen="")
        self.look()


class InTheBooks(OnTheWire):
    """A return is paid; its credit is about to be written."""

    def go_on(self) -> None:
        super().go_on()
        for which in (0, 1):
            self.work(which=which)
            self.hand_over(which=which, by="desk", step="begin", receipt="receipt 0")
            self.hand_over(which=which, by="desk", step="confirm", receipt="receipt 0")
        self.look()
