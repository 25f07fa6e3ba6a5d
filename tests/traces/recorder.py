"""Traces from the database's own notes: the attempts of workers and the history of payments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db.models import Max
from django.utils import timezone

from payments import outbound
from payments.capabilities import capabilities_of
from payments.models import PaymentAttempt, PaymentTask
from payments.protocol import Facts
from returns.states import TaskState
from tests.traces.checker import CLAIM, RECORD, SET_ASIDE, Step
from tests.traces.seen import Seen, seen

Attempts = dict[tuple[int, int, str], PaymentAttempt]


class Recorder:
    """Reads what has been written since it last looked, and adds it to the traces."""

    def __init__(self) -> None:
        self.traces: defaultdict[int, list[Step]] = defaultdict(list)
        self._history = apps.get_model("payments", "PaymentTaskHistory")
        self._read_to = self._history._default_manager.aggregate(at=Max("pgh_id"))["at"] or 0
        self._last: dict[int, Any] = {}

    def workers_were_at_it(self) -> None:
        """Every claim, record and setting aside, each as its own step."""
        versions = self._new_versions()
        attempts = _attempts({version.pgh_obj_id for version in versions})
        for version in versions:
            row, before = version.pgh_obj_id, self._last.get(version.pgh_obj_id)
            self._last[row] = version
            if before and (step := _step(before, version, attempts)):
                self.traces[row].append(step)

    def happened(self, row: int, kind: str, what: str = "") -> None:
        """One thing that the test itself did to a payment, with all that it wrote."""
        for version in self._new_versions():
            self._last[version.pgh_obj_id] = version
        last = self._last[row]
        self.traces[row].append(_with(kind, what, 0, _shows(last, last.pgh_created_at)))

    def happened_to_all(self, kind: str) -> None:
        """The same for every payment, at this moment."""
        for version in self._new_versions():
            self._last[version.pgh_obj_id] = version
        now = timezone.now()
        for task in PaymentTask.objects.all():
            self.traces[task.pk].append(_with(kind, "", 0, _shows(task, now)))

    def _new_versions(self) -> Sequence[Any]:
        newer = self._history._default_manager.filter(pgh_id__gt=self._read_to)
        versions = list(newer.order_by("pgh_id"))
        if versions:
            self._read_to = versions[-1].pgh_id
        return versions


def _attempts(tasks: set[int]) -> Attempts:
    noted = PaymentAttempt.objects.filter(row__in=tasks)
    return {(attempt.row_id, attempt.lease, attempt.step): attempt for attempt in noted}


def _step(before: Any, after: Any, attempts: Attempts) -> Step | None:
    """What made one version of a row from the one before; None where nothing shows."""
    row = after.pgh_obj_id
    now = _shows(after, after.pgh_created_at)
    if after.lease_until is not None and after.lease != before.lease:
        attempt = attempts[row, after.lease, PaymentAttempt.Step.STARTED]
        return _with(CLAIM, attempt.purpose, after.lease, now)
    ended = attempts.get((row, before.lease, PaymentAttempt.Step.ENDED))
    if before.lease_until is not None and after.lease_until is None and ended:
        return _with(RECORD, ended.outcome, before.lease, now)
    # Nobody but workers wrote, so this is what they do without a call.
    changed = now != _shows(before, after.pgh_created_at)
    return _with(SET_ASIDE, "", 0, now) if changed else None


def _with(kind: str, what: str, lease: int, shown: Seen) -> Step:
    return Step(kind, what, lease, tuple(shown._asdict().items()))


def _shows(row: Any, now: datetime) -> Seen:
    """What a payment, or a version of it, shows."""
    names = [name for name in Facts.__dataclass_fields__ if name != "now"]
    facts = Facts(now=now, **{name: getattr(row, name) for name in names})
    has_word = row.state == TaskState.STUCK and bool(row.attention)
    return seen(facts, capabilities_of(row.provider), outbound.timing(), has_word=has_word)
