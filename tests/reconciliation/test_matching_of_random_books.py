"""Set-based matching says what a naive matcher says, of any books and any window."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciliation.models import DailyTotal, Mismatch
from reconciliation.runs import reconcile
from tests.reconciliation.small_books import (
    Books,
    Credit,
    Line,
    Naive,
    Operation,
    Payment,
    day,
    key,
    write,
)

pytestmark = pytest.mark.django_db

DAYS = st.integers(-2, 7)
MINOR = st.integers(1, 3)
CURRENCY = st.sampled_from(["EUR"] * 5 + ["USD"])
FIRST, LAST = 0, 5

payments = st.builds(
    Payment,
    minor=MINOR,
    day=DAYS,
    provider=st.sampled_from(["stripe"] * 4 + ["manual"]),
    state=st.sampled_from(["succeeded"] * 6 + ["returned", "declined", "unknown"]),
)
operations = st.builds(
    Operation,
    payments=st.lists(payments, min_size=1, max_size=2).map(tuple),
    currency=CURRENCY,
)


HOW_OFTEN = st.sampled_from([1, 1, 1, 1, 0, 2])
HOW_OFTEN_BY_MISTAKE = st.sampled_from([0, 0, 1, 2])
STRANGERS = {"re_external": "", "re_a": "", "re_b": "half a key", "re_c": str(key(0))}


@st.composite
def books(draw: st.DrawFn) -> Books:
    """Books that mostly agree."""
    made = Books(operations=draw(st.lists(operations, max_size=4)), external=["re_external"])
    for n, refund, payment, currency in made.settled():
        if payment.provider == "stripe":
            made.lines += _lines(draw, n, refund, payment, currency)
    for n, operation in enumerate(made.operations):
        for _ in range(draw(HOW_OFTEN)):
            minor = made.paid(n) if draw(st.booleans()) else draw(MINOR)
            of = draw(_mostly(operation.currency))
            made.credits.append(Credit(str(key(n)), minor, draw(DAYS), of))
    for refund, text in STRANGERS.items():
        for _ in range(draw(HOW_OFTEN_BY_MISTAKE)):
            made.lines.append(Line(refund, draw(MINOR), draw(DAYS), draw(CURRENCY), "refund", text))
    for reference in ("half a key", str(key(99))):
        for _ in range(draw(HOW_OFTEN_BY_MISTAKE)):
            made.credits.append(Credit(reference, draw(MINOR), draw(DAYS), draw(CURRENCY)))
    return made


def _lines(draw: st.DrawFn, n: int, refund: str, payment: Payment, currency: str) -> list[Line]:
    """What the provider lists of one payment, now and then wrongly."""
    lines = []
    for _ in range(draw(HOW_OFTEN)):
        minor = payment.minor if draw(st.booleans()) else draw(MINOR)
        late = draw(st.sampled_from([0, 0, 0, 1, -1]))
        of = draw(_mostly(currency))
        lines.append(Line(refund, minor, payment.day + late, of, "refund", str(key(n))))
    if draw(st.sampled_from([False] * 4 + [True])):
        lines.append(Line(refund, -payment.minor, draw(DAYS), currency, "refund_returned"))
    return lines


def _mostly(currency: str) -> st.SearchStrategy[str]:
    return st.sampled_from([currency] * 6 + ["USD"])


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(made=books())
def test_any_books_are_matched_as_by_hand_and_explained_to_the_cent(made: Books) -> None:
    naive = Naive(made, FIRST, LAST)
    with transaction.atomic():
        write(made)
        run = reconcile(first=day(FIRST), last=day(LAST), by=None, collect=lambda *_: None)

        figures = ("kind", "expected_minor", "found_minor", "currency")
        assert Counter(Mismatch.objects.values_list(*figures)) == naive.found
        totals = {
            (total.side, total.day, total.currency): (total.expected_minor, total.found_minor)
            for total in run.totals.all()
        }
        nothing = (0, 0)
        assert {k: v for k, v in totals.items() if v != nothing} == {
            k: v for k, v in naive.totals.items() if v != nothing
        }
        assert [total for total in run.totals.all() if total.unexplained_minor] == []

        again = reconcile(first=day(FIRST), last=day(LAST), by=None, collect=lambda *_: None)
        assert (again.opened, again.closed) == (0, 0)
        assert _figures(again.totals.all()) == _figures(run.totals.all())
        transaction.set_rollback(True)


def _figures(totals: object) -> set[tuple[object, ...]]:
    assert hasattr(totals, "values_list")
    names = [field.name for field in DailyTotal._meta.fields if field.name not in ("id", "run")]
    return set(totals.values_list(*names))
