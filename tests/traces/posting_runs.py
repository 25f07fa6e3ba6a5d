"""Runs of ERP postings: drafts, duplicates, refusals that a person mends."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from pytest_django import Settings

from reconciliation import dispatch, posting, sweeping
from reconciliation.erp.sandbox import SandboxErp as ErpAdapter
from reconciliation.models import ErpPosting
from returns.states import TASK_FINAL
from tests import factories
from tests.model.books import TIMES
from tests.sandboxes import SandboxErp, SandboxProvider
from tests.stateful.workers import Posting
from tests.traces.recorder import POSTINGS
from tests.traces.runs import HALF_SECONDS, TICK_SECONDS, Run, timing


def set_posting_times(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product and what it believes of the ERP, in the model's times."""
    settings.OUTBOUND_TIMING = timing(TIMES)
    promise = replace(
        ErpAdapter.capabilities,
        lookup_lag_seconds=TIMES.lag * TICK_SECONDS + HALF_SECONDS,
        max_under_way_seconds=TIMES.travel * TICK_SECONDS,
    )
    monkeypatch.setattr(ErpAdapter, "capabilities", promise)


class PostingRun(Run):
    """A few credits from the payment of their returns on."""

    times, phases, books = TIMES, Posting(), POSTINGS
    sends_to = ("POST /entries ", "POST /entries ", "/post", "DELETE /entries")
    asks_at = "GET /entries"
    send_faults = (
        *("drop_before", "drop_after", "error_before", "error_after", "garbage_after"),
        *("late", "late", "refuse", "refuse", "closed_period", "rate_limit"),
    )
    ask_faults = ("drop_before", "error_before", "garbage_after", "rate_limit")

    def __init__(
        self,
        provider: SandboxProvider,
        erp: SandboxErp,
        chance: Random,
        postings: int,
        *,
        unique: bool,
    ) -> None:
        self._provider, self._erp, self._unique = provider, erp, unique
        super().__init__(erp, chance, ErpAdapter.capabilities, postings)

    def begin(self, rows: int) -> None:
        self._erp.unique_reference(self._unique)
        self._provider.reset()
        returned = [factories.reserved() for _ in range(rows)]
        self._provider.know_payments()
        for operation in returned:
            factories.pay(operation)
        posting.open_postings()

    def is_over(self) -> bool:
        return not ErpPosting.objects.exclude(state__in=TASK_FINAL).exists()

    def work_on(self, row: int) -> None:
        dispatch.post(row)

    def look_after_all(self) -> None:
        sweeping.sweep_books()

    def somebody_asks(self, row: int) -> None:
        posting.try_again(posting_id=row, by=factories.finance())
