"""Everything there is to know about one mismatch: the difference, the three sides, its history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from payments.models import PaymentTask
from reconciliation.models import ErpEntry, Mismatch, SettlementLine
from reconciliation.releasable import posting_of
from returns import money
from returns.models import RefundOperation
from returns.states import TaskState
from returns.wording import of_attention

Words = str | Promise

# Rows of one side that a page shows.
MOST = 20


@dataclass(frozen=True)
class SideRow:
    """What one side says about the money, minor units; `counts` when it says that it moved."""

    name: str
    state: str
    minor: int | None
    currency: str
    at: datetime | date | None
    said: str = ""
    url: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Side:
    """One side with its rows."""

    title: Words
    rows: list[SideRow]
    without: Words

    @property
    def totals(self) -> list[tuple[int, str]]:
        """What has moved as this side has it, minor units by currency."""
        sums: defaultdict[str, int] = defaultdict(int)
        for row in self.rows:
            if row.minor is not None:
                sums[row.currency] += row.minor if row.counts else 0
        return [(minor, currency) for currency, minor in sorted(sums.items())]


@dataclass(frozen=True)
class Step:
    """Something that was done about the item; `who` is empty for the software."""

    at: datetime
    who: str
    what: str
    note: str


def find(pk: int) -> Mismatch | None:
    """One mismatch with all rows that it is about."""
    rows = Mismatch.objects.select_related(
        *("operation__order", "operation__posting", "payment__tender", "posting", "event", "run"),
        *("line__statement", "entry", "link_to"),
        *("assignee", "proposed_by", "resolved_by"),
    )
    return rows.filter(pk=pk).first()


def difference_of(mismatch: Mismatch) -> str:
    """The difference with its sign, or what is at stake where nothing was compared."""
    if not mismatch.currency:
        return ""
    minor = mismatch.difference_minor
    if minor is None:
        return money.shown(mismatch.at_stake_minor, mismatch.currency)
    sign = "+" if minor > 0 else "\N{MINUS SIGN}" if minor < 0 else ""
    figure = money.shown(abs(minor), mismatch.currency).removeprefix(mismatch.currency).strip()
    return f"{mismatch.currency} {sign}{figure}"


def sides_of(mismatch: Mismatch) -> list[Side]:
    """Ours, the provider's and the books', beside each other."""
    payments = _payments_of(mismatch)
    return [
        Side(_("Our side"), _ours(mismatch, payments), _("Nothing of ours belongs to this.")),
        Side(
            _("Provider"),
            [*_lines(mismatch, payments), *_event(mismatch)],
            _("The provider lists nothing for this."),
        ),
        Side(
            _("Books"),
            [*_entries(mismatch), *_credit(mismatch)],
            _("The books have nothing for this."),
        ),
    ]


def history_of(mismatch: Mismatch) -> list[Step]:
    """What was done about the item and by whom, the newest last."""
    found_by = gettext("found by the reconciliation of %(days)s") % {"days": mismatch.run}
    opened = found_by if mismatch.run else gettext("found by the sweep")
    steps = [Step(mismatch.opened_at, "", opened, "")]
    steps.extend(
        Step(event.at, str(event.by), event.get_verb_display(), event.note)
        for event in mismatch.events.select_related("by").order_by("pk")
    )
    if mismatch.resolved_at is not None and mismatch.resolved_by is None:
        steps.append(
            Step(mismatch.resolved_at, "", mismatch.get_resolution_display(), mismatch.reason)
        )
    return steps


def _payments_of(mismatch: Mismatch) -> list[PaymentTask]:
    mine = Q(operation=mismatch.operation_id) if mismatch.operation_id else Q(pk__in=[])
    if mismatch.payment_id:
        mine |= Q(pk=mismatch.payment_id)
    rows = PaymentTask.objects.filter(mine).select_related("tender", "operation")
    return list(rows.order_by("pk")[:MOST])


def _ours(mismatch: Mismatch, payments: list[PaymentTask]) -> list[SideRow]:
    rows = [_payment(task) for task in payments]
    if not rows and mismatch.operation is not None:
        rows.append(_operation(mismatch.operation))
    return rows


def _payment(task: PaymentTask) -> SideRow:
    # What was answered about a payment that is settled says nothing that does not stand there.
    answer = "" if task.state == TaskState.SUCCEEDED else task.last_answer
    said = " ".join(filter(None, [of_attention(task.attention), answer]))
    return SideRow(
        name=f"{task.operation} · {task.tender.label or task.provider}",
        state=str(task.get_state_display()),
        minor=task.amount_minor,
        currency=task.currency,
        at=task.finished_at or task.created_at,
        said=said,
        url=reverse("return", args=[task.operation.reference]),
        counts=task.state == TaskState.SUCCEEDED,
    )


def _operation(operation: RefundOperation) -> SideRow:
    return SideRow(
        name=operation.reference,
        state=str(operation.get_state_display()),
        minor=operation.refunded_minor,
        currency=operation.currency,
        at=operation.state_changed_at,
        url=reverse("return", args=[operation.reference]),
    )


def _lines(mismatch: Mismatch, payments: list[PaymentTask]) -> Iterator[SideRow]:
    about = Q(pk__in=[])
    for task in payments:
        if task.provider_refund:
            about |= Q(provider=task.provider, refund=task.provider_refund)
    if mismatch.line is not None:
        about |= Q(provider=mismatch.line.provider, refund=mismatch.line.refund)
    lines = SettlementLine.objects.filter(about).select_related("statement")
    for line in lines.order_by("at", "pk")[:MOST]:
        where = gettext("%(file)s, line %(number)s")
        yield SideRow(
            name=line.refund or line.identity,
            state=str(line.get_kind_display()),
            minor=line.amount_minor,
            currency=line.currency,
            at=line.at,
            said=where % {"file": line.statement.name, "number": line.number},
            url=reverse("settlement_import", args=[line.statement_id]),
        )


def _event(mismatch: Mismatch) -> Iterator[SideRow]:
    event = mismatch.event
    if event is not None:
        yield SideRow(
            name=event.event_id,
            state=event.kind,
            minor=None,
            currency="",
            at=event.occurred_at,
            said=event.note,
            url=f"{reverse('admin:payments_providerevent_changelist')}?q={event.event_id}",
        )


def _entries(mismatch: Mismatch) -> Iterator[SideRow]:
    references = [str(mismatch.operation.operation_key)] if mismatch.operation else []
    if mismatch.entry is not None:
        references.append(mismatch.entry.reference)
    entries = ErpEntry.objects.filter(reference__in=references)
    for entry in entries.order_by("posted_on", "pk")[:MOST]:
        listed = gettext("now listed as %(what)s") % {"what": entry.listed_as}
        yield SideRow(
            name=entry.entry,
            state=gettext("posted"),
            minor=entry.amount_minor,
            currency=entry.currency,
            at=entry.posted_on,
            said=listed if entry.listed_as else "",
        )


def _credit(mismatch: Mismatch) -> Iterator[SideRow]:
    """Our own intention to post, where it is not done."""
    credit: Any = posting_of(mismatch)
    if credit is not None and credit.state != TaskState.SUCCEEDED:
        said = " ".join(filter(None, [of_attention(credit.attention), credit.last_answer]))
        yield SideRow(
            name=credit.entry or gettext("credit to be posted"),
            state=str(credit.get_state_display()),
            minor=credit.amount_minor,
            currency=credit.currency,
            at=credit.created_at,
            said=said,
            counts=False,
        )
