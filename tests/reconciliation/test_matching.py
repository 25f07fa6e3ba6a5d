"""Three sides matched by reference: every difference is found once and explained to the cent."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest
from django.utils import timezone

from reconciliation.models import DailyTotal, Mismatch, ReconciliationRun
from reconciliation.runs import reconcile
from tests import factories
from tests.past import without_triggers, write_past
from tests.reconciliation.seeds import SEEDS, hide_and_seek, run_for

pytestmark = pytest.mark.django_db

# Long enough ago that nothing is under way any more.
START = timezone.now().replace(hour=8, minute=0) - timedelta(days=60)
FIRST, LAST = START.date(), (START + timedelta(days=30)).date()
OPERATIONS = 10_000
TIMES = 3


def run(first: date = FIRST, last: date = LAST) -> ReconciliationRun:
    return reconcile(
        first=first, last=last, by=factories.finance(), collect=lambda _window, _say: None
    )


def found() -> Counter[str]:
    return Counter(Mismatch.objects.filter(status="open").values_list("kind", flat=True))


def unexplained(run: ReconciliationRun) -> list[DailyTotal]:
    return [total for total in run.totals.all() if total.unexplained_minor]


def test_every_seeded_discrepancy_is_found_once_explained_and_closed_when_mended() -> None:
    write_past(OPERATIONS, start=START, days=30)
    hide_and_seek()
    seeded = {
        100 * place + copy: seed
        for place, seed in enumerate(SEEDS.values(), 1)
        for copy in range(TIMES)
    }
    with without_triggers():
        for n, seed in seeded.items():
            run_for(seed.spoil, n)

    first = run()
    assert found() == dict.fromkeys(SEEDS, TIMES)
    assert first.opened == len(seeded)
    assert unexplained(first) == []
    assert any(t.found_minor != t.expected_minor for t in first.totals.all())

    again = run()
    assert (again.opened, again.closed) == (0, 0)
    assert unexplained(again) == []

    with without_triggers():
        for n, seed in seeded.items():
            run_for(seed.mend, n)
    mended = run()
    assert (mended.opened, mended.closed) == (0, len(seeded))
    assert found() == {}
    assert all(t.found_minor == t.expected_minor for t in mended.totals.all())
    third = run()
    assert (third.opened, third.closed) == (0, 0)
