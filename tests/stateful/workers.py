"""Workers that stop between two phases of a call. Who never comes back has died.

The phases are the product's own: `outbound.claim`, the call of its dispatch, and the verb that
records the outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from payments import dispatch, outbound, settlement
from payments.capabilities import capabilities_of
from payments.models import OutboundRow, PaymentAttempt, PaymentTask
from payments.outbound import Claim
from payments.outcomes import Outcome
from payments.protocol import Decision
from reconciliation import dispatch as books
from reconciliation import posting
from reconciliation.erp import erp
from reconciliation.models import ErpPosting, PostingAttempt


class Phases(Protocol):
    """A step of a worker, taken apart."""

    def row(self, row_id: int) -> OutboundRow: ...

    def claim(self, row_id: int) -> Claim | Decision: ...

    def call(self, claim: Claim) -> Outcome | None:
        """None: too late, nothing was sent."""

    def record(self, claim: Claim, outcome: Outcome) -> bool: ...


class Paying:
    """A payment at the provider."""

    def row(self, row_id: int) -> PaymentTask:
        return PaymentTask.objects.select_related("tender", "operation__order").get(pk=row_id)

    def claim(self, row_id: int) -> Claim | Decision:
        provider = self.row(row_id).provider
        return outbound.claim(PaymentTask, PaymentAttempt, row_id, capabilities_of(provider))

    def call(self, claim: Claim) -> Outcome | None:
        return dispatch._call(claim, self.row(claim.row_id))

    def record(self, claim: Claim, outcome: Outcome) -> bool:
        return settlement.record(task_id=claim.row_id, claim=claim, outcome=outcome)


class Posting:
    """A credit in the ERP."""

    def row(self, row_id: int) -> ErpPosting:
        return ErpPosting.objects.select_related("operation__order").get(pk=row_id)

    def claim(self, row_id: int) -> Claim | Decision:
        return outbound.claim(ErpPosting, PostingAttempt, row_id, erp().capabilities)

    def call(self, claim: Claim) -> Outcome | None:
        if not outbound.may_call(claim):
            return None
        return books._call(erp(), claim, books._credit(self.row(claim.row_id)))

    def record(self, claim: Claim, outcome: Outcome) -> bool:
        return posting.record(
            posting_id=claim.row_id,
            claim=claim,
            outcome=outcome,
            capabilities=erp().capabilities,
        )


@dataclass
class StoppedWorker:
    """One that has claimed a row, and has called already where `outcome` is there."""

    phases: Phases
    claim: Claim
    outcome: Outcome | None = None
    slept_seconds: int = 0

    def sleep(self, seconds: int) -> None:
        """Its lease and its times grow old while it stands still."""
        self.slept_seconds += seconds
        self.claim = replace(
            self.claim,
            asked_at=self.claim.asked_at - timedelta(seconds=seconds),
            call_before=self.claim.call_before - seconds,
        )

    @property
    def is_late(self) -> bool:
        """Whether it has slept for longer than it could hold a lease."""
        return self.slept_seconds >= outbound.timing().lease_seconds

    @property
    def is_overtaken(self) -> bool:
        """Whether the row has moved on without it."""
        row = self.phases.row(self.claim.row_id)
        return row.lease != self.claim.lease or row.lease_until is None

    def wake(self) -> tuple[bool, bool]:
        """Go on where it stopped; whether it called, and whether it wrote."""
        called = False
        if self.outcome is None:
            self.outcome = self.phases.call(self.claim)
            called = self.outcome is not None
        wrote = self.outcome is not None and self.phases.record(self.claim, self.outcome)
        return called, wrote
