"""What happens to credits in the ERP."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from reconciliation import dispatch as books
from reconciliation import posting
from tests.stateful.desk import WHICH
from tests.stateful.wire import LOST, NOT_BY_ITSELF, Wire
from tests.stateful.workers import Posting

FAULTS = st.sampled_from([*LOST, "refuse", "closed_period", "rate_limit", "unauthorized", "slow"])
PLACES = st.sampled_from(["POST /entries ", "/post", "GET /entries"])


class Books(Wire):
    """Between us and the ERP."""

    @rule(which=WHICH)
    def post(self, which: int) -> None:
        """The queue's worker takes a posting as far as it goes."""
        posting.open_postings()
        if row := self.posting(which):
            books.post(row)

    @rule(which=WHICH, called=st.booleans())
    def posting_worker_stops(self, which: int, called: bool) -> None:
        posting.open_postings()
        if row := self.posting(which):
            self.stop(Posting(), row, called=called)

    @rule(modes=st.lists(FAULTS, min_size=1, max_size=2), place=PLACES)
    def next_entries_go_wrong(self, modes: list[str], place: str) -> None:
        for mode in modes:
            seconds = NOT_BY_ITSELF if mode == "late" else 0
            self.world.erp.fault(mode, match=place, seconds=seconds)

    @rule(which=WHICH)
    def post_again(self, which: int) -> None:
        """Finance has mended the cause of a refusal."""
        if row := self.posting(which):
            posting.try_again(posting_id=row, by=self.people["fiona"])
