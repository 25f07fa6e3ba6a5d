"""What the pages of reconciliation read; the number of statements does not depend on the rows."""

from __future__ import annotations

from django.db.models import Count, F, Q, QuerySet

from reconciliation.models import DailyTotal, Mismatch, ReconciliationRun, SettlementImport

MOST_ROWS = 30
# Refused lines of one file that a page shows; the count is of all.
MOST_REFUSALS = 200

_NOT_EXPLAINED = ~Q(
    totals__found_minor=F("totals__expected_minor")
    + F("totals__explained_minor")
    + F("totals__under_way_minor")
)


def latest_runs() -> QuerySet[ReconciliationRun]:
    """The latest runs, each with `unexplained`: how many of its totals are not explained."""
    return _judged().select_related("started_by").order_by("-pk")[:MOST_ROWS]


def run_of(pk: int) -> ReconciliationRun | None:
    """One run, with `unexplained`."""
    return _judged().select_related("started_by").filter(pk=pk).first()


def totals_of(run: ReconciliationRun) -> list[DailyTotal]:
    """What the sides say about each day and currency, those that differ first."""
    totals = list(run.totals.order_by("day", "currency", "side"))
    return sorted(totals, key=lambda total: (total.unexplained_minor == 0, total.is_even))


def opened_by(run: ReconciliationRun) -> QuerySet[Mismatch]:
    """What a run has found and is still open, oldest and largest first."""
    return run.mismatches.filter(status=Mismatch.Status.OPEN).order_by("-at_stake_minor", "pk")


def latest_imports() -> QuerySet[SettlementImport]:
    """The latest files and lists that were taken in."""
    return SettlementImport.objects.select_related("imported_by").order_by("-pk")[:MOST_ROWS]


def import_of(pk: int) -> SettlementImport | None:
    """One import."""
    return SettlementImport.objects.select_related("imported_by").filter(pk=pk).first()


def _judged() -> QuerySet[ReconciliationRun]:
    return ReconciliationRun.objects.annotate(unexplained=Count("totals", filter=_NOT_EXPLAINED))
