"""Traces from the database's own notes: the attempts of workers and the history of their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.db.models import Max, Model
from django.utils import timezone

from payments import outbound
from payments.models import AttemptRow, OutboundRow, PaymentAttempt, PaymentTask
from payments.outcomes import Capabilities
from payments.protocol import Facts
from reconciliation.models import ErpPosting, PostingAttempt
from returns.states import TaskState
from tests.traces.checker import CLAIM, RECORD, SET_ASIDE, Step
from tests.traces.seen import Seen, seen

Attempts = dict[tuple[int, int, str], AttemptRow]


@dataclass(frozen=True)
class Books:
    """Where rows of one kind, all that they have been and all calls about them are kept."""

    rows: type[OutboundRow]
    attempts: type[AttemptRow]
    history: type[Model]


PAYMENTS = Books(PaymentTask, PaymentAttempt, apps.get_model("payments", "PaymentTaskHistory"))
POSTINGS = Books(ErpPosting, PostingAttempt, apps.get_model("reconciliation", "ErpPostingHistory"))


class Recorder:
    """Reads what has been written since it last looked, and adds it to the traces."""

    def __init__(self, books: Books, capabilities: Capabilities) -> None:
        self.traces: defaultdict[int, list[Step]] = defaultdict(list)
        self._books, self._capabilities = books, capabilities
        self._history = books.history._default_manager
        self._read_to = self._history.aggregate(at=Max("pgh_id"))["at"] or 0
        self._last: dict[int, Any] = {}

    def workers_were_at_it(self) -> None:
        """Every claim, record and setting aside, each as its own step."""
        versions = self._new_versions()
        attempts = self._attempts({version.pgh_obj_id for version in versions})
        for version in versions:
            row, before = version.pgh_obj_id, self._last.get(version.pgh_obj_id)
            self._last[row] = version
            if before and (step := self._step(before, version, attempts)):
                self.traces[row].append(step)

    def happened(self, row: int, kind: str, what: str = "") -> None:
        """One thing that the test itself did to a row, with all that it wrote."""
        self._read_on()
        last = self._last[row]
        self.traces[row].append(_with(kind, what, 0, self._shows(last, last.pgh_created_at)))

    def happened_to_all(self, kind: str) -> None:
        """The same for every row, at this moment."""
        self._read_on()
        now = timezone.now()
        for row in self._books.rows._default_manager.all():
            self.traces[row.pk].append(_with(kind, "", 0, self._shows(row, now)))

    def _read_on(self) -> None:
        for version in self._new_versions():
            self._last[version.pgh_obj_id] = version

    def _new_versions(self) -> Sequence[Any]:
        newer: list[Any] = list(self._history.filter(pgh_id__gt=self._read_to).order_by("pgh_id"))
        if newer:
            self._read_to = newer[-1].pgh_id
        return newer

    def _attempts(self, row_ids: set[int]) -> Attempts:
        of_rows: dict[str, Any] = {"row__in": row_ids}
        noted: list[Any] = list(self._books.attempts._default_manager.filter(**of_rows))
        return {(attempt.row_id, attempt.lease, attempt.step): attempt for attempt in noted}

    def _step(self, before: Any, after: Any, attempts: Attempts) -> Step | None:
        """What made one version of a row from the one before; None where nothing shows."""
        row = after.pgh_obj_id
        now = self._shows(after, after.pgh_created_at)
        if after.lease_until is not None and after.lease != before.lease:
            attempt = attempts[row, after.lease, AttemptRow.Step.STARTED]
            return _with(CLAIM, attempt.purpose, after.lease, now)
        ended = attempts.get((row, before.lease, AttemptRow.Step.ENDED))
        if before.lease_until is not None and after.lease_until is None and ended:
            return _with(RECORD, ended.outcome, before.lease, now)
        # Nobody but workers wrote, so this is what they do without a call.
        changed = now != self._shows(before, after.pgh_created_at)
        return _with(SET_ASIDE, "", 0, now) if changed else None

    def _shows(self, row: Any, now: datetime) -> Seen:
        """What a row, or a version of it, shows."""
        names = [name for name in Facts.__dataclass_fields__ if name != "now"]
        facts = Facts(now=now, **{name: getattr(row, name) for name in names})
        has_word = row.state == TaskState.STUCK and bool(row.attention)
        return seen(facts, self._capabilities, outbound.timing(), has_word=has_word)


def _with(kind: str, what: str, lease: int, shown: Seen) -> Step:
    return Step(kind, what, lease, tuple(shown._asdict().items()))
