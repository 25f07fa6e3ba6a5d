"""A worker's step with one posting: claim it, call the ERP, record.

Which entry may be posted is one rule: a posted entry always wins; else the lowest draft is kept,
the others are deleted first, and when a delete did not succeed we look again before posting.
"""

from __future__ import annotations

import logging

from django.db import transaction
from django.utils import timezone

from payments import outbound
from payments.outcomes import Absent, Accepted, Outcome, Purpose, Refused, Settled, Unknown
from reconciliation import posting as verbs
from reconciliation.erp import erp
from reconciliation.erp.base import Credit, Entry, Erp, ErpRefused, ErpUnknown
from reconciliation.models import ErpPosting, PostingAttempt

log = logging.getLogger(__name__)

DUPLICATE = "duplicate_reference"


def post(posting_id: int) -> int:
    """Take one posting as far as it goes now; returns the number of steps taken."""
    return outbound.until_nothing_is_due(lambda: _step(posting_id))


def tidy(posting_id: int) -> int:
    """Delete drafts that a request in doubt left behind after the credit was posted."""
    posting = ErpPosting.objects.select_related("operation").get(pk=posting_id)
    deleted = 0
    for entry in erp().find(posting.operation.operation_key):
        if not entry.posted:
            erp().delete_draft(entry.entry)
            deleted += 1
    ErpPosting.objects.filter(pk=posting_id).update(tidy_at=None)
    return deleted


def _step(posting_id: int) -> bool:
    row = ErpPosting.objects.select_related("operation__order").get(pk=posting_id)
    adapter = erp()
    claim = outbound.claim(ErpPosting, PostingAttempt, posting_id, adapter.capabilities)
    if not isinstance(claim, outbound.Claim):
        return False
    if transaction.get_connection().in_atomic_block:
        raise RuntimeError("no outbound call may happen inside a transaction")
    if not outbound.may_call(claim):
        log.warning("posting %s: woke after the lease, nothing was sent", posting_id)
        return False
    outcome = _call(adapter, claim, _credit(row))
    return verbs.record(
        posting_id=posting_id, claim=claim, outcome=outcome, capabilities=adapter.capabilities
    )


def _call(adapter: Erp, claim: outbound.Claim, credit: Credit) -> Outcome:
    try:
        if claim.purpose is Purpose.SEND:
            draft = adapter.create_draft(credit)
            return Accepted(draft.entry, draft.amount_minor, draft.currency)
        return _resume(adapter, claim, credit)
    except ErpUnknown as error:
        return Unknown(str(error))
    except ErpRefused as refusal:
        if refusal.code == DUPLICATE:
            return Unknown("an entry with our reference exists; the look-up decides")
        return Refused(refusal.code, refusal.reason)


def _resume(adapter: Erp, claim: outbound.Claim, credit: Credit) -> Outcome:
    """Look up by our reference and take what is there to its end."""
    found = adapter.find(credit.reference)
    if not found:
        return Absent()
    posted = [entry for entry in found if entry.posted]
    if len(posted) > 1:
        ids = ", ".join(entry.entry for entry in posted)
        return Unknown(f"several posted entries under one reference: {ids}", "more_than_one_credit")
    if posted:
        return _settled(posted[0])
    keep = found[0]
    if keep.amount_minor != credit.amount_minor or keep.currency != credit.currency:
        return _settled(keep)
    if not _deleted(adapter, found[1:]):
        return Unknown("a spare draft could not be deleted; looking again before posting")
    if not outbound.may_call(claim):
        return Unknown("the lease ended before posting")
    return _settled(adapter.post(keep.entry))


def _deleted(adapter: Erp, drafts: list[Entry]) -> bool:
    for draft in drafts:
        try:
            adapter.delete_draft(draft.entry)
        except (ErpRefused, ErpUnknown):
            log.warning("draft %s was not deleted", draft.entry)
            return False
    return True


def _settled(entry: Entry) -> Settled:
    """What the protocol compares with our own amount and currency before it believes it."""
    return Settled(entry.entry, entry.amount_minor, entry.currency)


def _credit(row: ErpPosting) -> Credit:
    operation = row.operation
    return Credit(
        reference=operation.operation_key,
        order=operation.order.number,
        amount_minor=row.amount_minor,
        currency=row.currency,
        refunded_on=row.refunded_on,
        description=f"Refund {operation.reference} of order {operation.order.number}",
    )


def due_postings() -> list[int]:
    """Postings whose next look has come, oldest first."""
    due = ErpPosting.objects.filter(next_look_at__lte=timezone.now()).order_by("next_look_at")
    return list(due.values_list("pk", flat=True)[: verbs.MOST_A_PASS])


def due_tidying() -> list[int]:
    """Posted credits that may have a late draft beside them by now."""
    due = ErpPosting.objects.filter(tidy_at__lte=timezone.now()).order_by("tidy_at")
    return list(due.values_list("pk", flat=True)[: verbs.MOST_A_PASS])
