"""What happens to credits in the ERP."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import rule

from reconciliation import dispatch as books
from reconciliation import posting
from tests.stateful.desk import WHICH
from tests.stateful.wire import ENDS, LOST, Wire, goes_wrong
from tests.stateful.workers import Posting

FAULTS = st.sampled_from([*LOST, "refuse", "closed_period", "rate_limit", "unauthorized", "slow"])
PLACES = st.sampled_from(["POST /entries ", "POST /entries ", "/post", "GET /entries"])


class Books(Wire):
    """Between us and the ERP."""

    @rule(which=WHICH, wrong=st.lists(FAULTS, max_size=2), place=PLACES, ends=ENDS)
    def post(self, which: int, wrong: list[str], place: str, ends: str) -> None:
        """The queue's worker takes a posting as far as it goes."""
        goes_wrong(self.world.erp, wrong, place)
        posting.open_postings()
        if row := self.posting(which):
            self.step(ends, partial(books.post, row), Posting(), row)

    @rule(which=WHICH)
    def post_again(self, which: int) -> None:
        """Finance has mended the cause of a refusal."""
        if row := self.posting(which):
            posting.try_again(posting_id=row, by=self.people["fiona"])
