"""One reconciliation of a window of days, and its totals."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from returns.models import guards


class ReconciliationRun(models.Model):
    """Looks at the days from `first` to `last`, both included, in the store's time zone."""

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"

    first = models.DateField()
    last = models.DateField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    # What it is at, for whoever waits.
    stage = models.CharField(max_length=100, blank=True)
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    # When it was asked for; a waiting one is taken up soon after.
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    opened = models.PositiveIntegerField(default=0)
    closed = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["state"],
                name="one_run_at_a_time",
                condition=Q(state__in=["waiting", "running"]),
            )
        ]
        triggers = [guards.kept(), guards.fixed("first", "last", "started_by", "started_at")]

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.FINISHED, self.State.FAILED)


class DailyTotal(models.Model):
    """What two sides say about one day and currency, minor units.

    `found - expected = explained + under_way` when every cent is accounted for.
    """

    class Side(models.TextChoices):
        PROVIDER = "provider"
        BOOKS = "books"

    run = models.ForeignKey(ReconciliationRun, on_delete=models.PROTECT, related_name="totals")
    side = models.CharField(max_length=10, choices=Side.choices)
    day = models.DateField()
    currency = models.CharField(max_length=3)
    expected_minor = models.BigIntegerField()
    found_minor = models.BigIntegerField()
    explained_minor = models.BigIntegerField()
    under_way_minor = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "side", "day", "currency"], name="one_total_per_day_and_currency"
            )
        ]
        triggers = guards.append_only()

    def __str__(self) -> str:
        return f"{self.day} {self.currency} {self.side}"

    @property
    def difference_minor(self) -> int:
        """What was found beyond what was expected."""
        return self.found_minor - self.expected_minor

    @property
    def is_even(self) -> bool:
        return self.difference_minor == 0

    @property
    def unexplained_minor(self) -> int:
        """What nothing in the queue explains; zero in good books."""
        return self.difference_minor - self.explained_minor - self.under_way_minor
