"""Small books written row by row, and a matcher so simple that one can see that it is right."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import md5
from typing import Any, NamedTuple
from uuid import UUID

from django.utils import timezone

from payments.models import PaymentTask
from reconciliation.models import ErpEntry, SettlementImport, SettlementLine
from returns.models import (
    ExternalRefund,
    Order,
    OrderBalance,
    RefundOperation,
    Tender,
    TenderBalance,
)
from tests import factories
from tests.past import without_triggers

# Long enough ago that nothing is under way any more.
START = (timezone.now() - timedelta(days=61)).date()
CAPTURED = 1000
SETTLED = ("succeeded", "returned")
FINAL = (*SETTLED, "declined")


def day(number: int) -> date:
    """The day of this number."""
    return START + timedelta(days=number)


def at(number: int) -> datetime:
    """A moment on that day, in any zone of ours."""
    return datetime.combine(day(number), datetime.min.time(), UTC) + timedelta(hours=11)


class Payment(NamedTuple):
    minor: int
    day: int
    provider: str = "stripe"
    state: str = "succeeded"


class Operation(NamedTuple):
    """Operation n of a book; its payments are refunds `re_n_0` and so on."""

    payments: tuple[Payment, ...]
    currency: str = "EUR"


class Line(NamedTuple):
    refund: str
    minor: int
    day: int
    currency: str = "EUR"
    kind: str = "refund"
    operation: str = ""
    payment: str = ""


class Credit(NamedTuple):
    reference: str
    minor: int
    day: int
    currency: str = "EUR"


def key(n: int) -> UUID:
    """The key of operation n."""
    return UUID(md5(f"operation {n}".encode()).hexdigest())  # noqa: S324 - a name, no secret


@dataclass
class Books:
    """All sides. `external` are refunds that the first operation's order knows of."""

    operations: list[Operation] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    credits: list[Credit] = field(default_factory=list)
    external: list[str] = field(default_factory=list)

    def settled(self) -> Iterator[tuple[int, str, Payment, str]]:
        """Operation, refund, payment and currency of everything that was once paid."""
        for n, operation in enumerate(self.operations):
            for place, payment in enumerate(operation.payments):
                if payment.state in SETTLED:
                    yield n, f"re_{n}_{place}", payment, operation.currency

    @property
    def knows_external(self) -> bool:
        """An external refund is booked on the first payment's tender, whose provider it was."""
        return bool(self.operations) and self.operations[0].payments[0].provider == "stripe"

    def paid(self, n: int) -> int:
        return sum(p.minor for p in self.operations[n].payments if p.state == "succeeded")


def write(books: Books) -> None:
    """Write the books; the guards of the database are off meanwhile."""
    with without_triggers():
        for n, operation in enumerate(books.operations):
            _write_operation(n, operation, books.external if n == 0 else [])
        write_lines(books.lines)
        write_credits(books.credits)


def _write_operation(n: int, operation: Operation, external: list[str]) -> None:
    def sum_of(states: tuple[str, ...]) -> int:
        return sum(p.minor for p in operation.payments if p.state in states)

    paid, in_flight = sum_of(("succeeded",)), sum_of(("unknown",))
    captured = CAPTURED * len(operation.payments)
    balance = {"captured_minor": captured, "reserved_minor": in_flight}
    order = Order.objects.create(
        number=f"BOOK-{n}",
        currency=operation.currency,
        placed_at=at(-30),
        shipping_minor=captured,
        delivered=True,
        facts_version=1,
    )
    gone = paid + len(external)
    OrderBalance.objects.create(
        order=order, refunded_minor=gone, external_minor=len(external), **balance
    )
    row = RefundOperation.objects.create(
        order=order,
        operation_key=key(n),
        subject_set="shipping",
        generation=0,
        state="reserved" if in_flight else "approved" if not paid else "paid",
        state_changed_at=at(0),
        currency=operation.currency,
        amount_minor=max(paid, in_flight, 1),
        refunded_minor=paid,
        pay_rounds=1,
        version=1,
        taken_in_channel="online",
        taken_in_at=at(0),
        taken_in_by=factories.desk(),
    )
    for place, payment in enumerate(operation.payments):
        _write_payment(row, place, f"{n}_{place}", payment, external if place == 0 else [])


def _write_payment(
    operation: RefundOperation, place: int, name: str, payment: Payment, external: list[str]
) -> None:
    tender = Tender.objects.create(
        order=operation.order,
        tender_id=str(place),
        provider=payment.provider,
        payment=f"pi_{name}",
        amount_minor=CAPTURED,
    )
    for reference in external:
        ExternalRefund.objects.create(
            tender=tender, reference=reference, amount_minor=1, source="provider"
        )
    paid = payment.minor if payment.state == "succeeded" else 0
    TenderBalance.objects.create(
        tender=tender,
        captured_minor=CAPTURED,
        reserved_minor=payment.minor if payment.state == "unknown" else 0,
        refunded_minor=paid + len(external),
        external_minor=len(external),
    )
    final = payment.state in FINAL
    PaymentTask.objects.create(
        operation=operation,
        tender=tender,
        generation=1,
        wire_key=UUID(md5(f"wire {name}".encode()).hexdigest()),  # noqa: S324
        state=payment.state,
        provider=payment.provider,
        amount_minor=payment.minor,
        currency=operation.currency,
        provider_refund=f"re_{name}" if payment.state in SETTLED else None,
        created_at=at(payment.day),
        finished_at=at(payment.day) if final else None,
        next_look_at=None if final else timezone.now() + timedelta(days=1),
    )


def write_lines(lines: list[Line]) -> None:
    """Add settlement lines."""
    statement = SettlementImport.objects.create(
        source="sandbox",
        name="book",
        imported_by=factories.finance(),
        imported_at=at(0),
        refused=0,
        other=0,
    )
    SettlementLine.objects.bulk_create(
        SettlementLine(
            account="stripe",
            identity=f"{statement.pk}-{number}",
            provider="stripe",
            statement=statement,
            number=number,
            kind=line.kind,
            refund=line.refund,
            payment=line.payment,
            operation=line.operation,
            amount_minor=line.minor,
            currency=line.currency,
            at=at(line.day),
        )
        for number, line in enumerate(lines)
    )


def write_credits(credit_notes: list[Credit]) -> None:
    """Add posted ERP entries."""
    before = ErpEntry.objects.count()
    ErpEntry.objects.bulk_create(
        ErpEntry(
            entry=f"book-{number}",
            reference=credit.reference,
            amount_minor=credit.minor,
            currency=credit.currency,
            posted_on=day(credit.day),
            seen_at=at(0),
        )
        for number, credit in enumerate(credit_notes, before)
    )


Finding = tuple[str, int, int, str]
Totals = dict[tuple[str, date, str], tuple[int, int]]


class Naive:
    """The same comparison, one row after the other; days from `first` to `last`."""

    def __init__(self, books: Books, first: int, last: int) -> None:
        self.books, self.window = books, range(first, last + 1)
        self.found: Counter[Finding] = Counter()
        self._totals: defaultdict[tuple[str, int, str], list[int]] = defaultdict(lambda: [0, 0])
        self._refunds = [r for r in books.lines if r.kind in ("refund", "refund_returned")]
        for _, refund, payment, currency in books.settled():
            if payment.provider == "stripe":
                self._compare_payment(refund, payment, currency)
        known = {
            refund for _, refund, payment, _ in books.settled() if payment.provider != "manual"
        }
        for refund in {line.refund for line in self._in_window(self._refunds)} - known:
            self._judge_loose(refund)
        for n in range(len(books.operations)):
            self._compare_operation(n)
        ours = {str(key(n)) for n in range(len(books.operations))}
        for reference in {credit.reference for credit in self._in_window(books.credits)} - ours:
            self._judge_credits(reference)

    @property
    def totals(self) -> Totals:
        """Expected and found, by side, day and currency."""
        return {
            (side, day(number), currency): (expected, found)
            for (side, number, currency), (expected, found) in self._totals.items()
        }

    def _in_window(self, rows: list[Any]) -> list[Any]:
        return [row for row in rows if row.day in self.window]

    def _tell(self, side: str, number: int, currency: str, expected: int, found: int) -> None:
        total = self._totals[side, number, currency]
        total[0] += expected
        total[1] += found

    def _compare_payment(self, refund: str, payment: Payment, currency: str) -> None:
        lines = [line for line in self._refunds if line.refund == refund]
        if payment.day not in self.window and not self._in_window(lines):
            return
        expected = payment.minor if payment.state == "succeeded" else 0
        found = self._sums("provider", payment.day, currency, expected, lines)
        kind = ""
        if not lines:
            kind = "paid_not_at_provider" if expected else ""
        elif any(line.currency != currency for line in lines):
            kind = "currency_differs"
        elif found != expected:
            kind = "amount_differs"
            if found == 0 and any(line.kind == "refund_returned" for line in lines):
                kind = "returned_after_success"
            if sum(line.kind == "refund" for line in lines) > 1:
                kind = "more_than_one_payment"
        self._note(kind, expected, found, currency)

    def _sums(self, side: str, number: int, currency: str, expected: int, rows: list[Any]) -> int:
        found: Counter[str] = Counter()
        for row in rows:
            found[row.currency] += row.minor
        self._tell(side, number, currency, expected, found[currency])
        for other in found.keys() - {currency}:
            self._tell(side, number, other, 0, found[other])
        return found[currency]

    def _judge_loose(self, refund: str) -> None:
        lines = [line for line in self._refunds if line.refund == refund]
        for currency in {line.currency for line in lines}:
            of_currency = [line for line in lines if line.currency == currency]
            found = sum(line.minor for line in of_currency)
            kind = self._kind_of_loose(refund, lines) if found else ""
            expected = found if kind == "external" else 0
            first = min(line.day for line in of_currency)
            self._tell("provider", first, currency, expected, found)
            self._note("" if kind == "external" else kind, 0, found, currency)

    def _kind_of_loose(self, refund: str, lines: list[Line]) -> str:
        if refund in self.books.external and self.books.knows_external:
            return "external"
        text = max(line.operation for line in lines)
        for n, operation in enumerate(self.books.operations):
            if text == str(key(n)):
                open_ones = [p for p in operation.payments if p.state not in FINAL]
                return "" if open_ones else "more_than_one_payment"
        return "reference_damaged" if text else "payment_without_operation"

    def _compare_operation(self, n: int) -> None:
        operation = self.books.operations[n]
        settled = [p for p in operation.payments if p.state in SETTLED]
        noted = [c for c in self.books.credits if c.reference == str(key(n))]
        if not self._in_window(settled) and not self._in_window(noted):
            return
        expected = self.books.paid(n)
        paid = [p.day for p in settled if p.state == "succeeded"]
        last = max(paid or [p.day for p in settled] or [min(c.day for c in noted)])
        found = self._sums("books", last, operation.currency, expected, noted)
        kind = ""
        if not noted:
            kind = "credit_missing" if expected else ""
        elif any(credit.currency != operation.currency for credit in noted):
            kind = "currency_differs"
        elif found != expected:
            kind = "credit_amount_differs" if expected else "credit_without_payment"
            if len(noted) > 1:
                kind = "more_than_one_credit"
        self._note(kind, expected, found, operation.currency)

    def _judge_credits(self, reference: str) -> None:
        noted = [c for c in self.books.credits if c.reference == reference]
        is_key = re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", reference)
        for currency in {credit.currency for credit in noted}:
            of_currency = [credit for credit in noted if credit.currency == currency]
            found = sum(credit.minor for credit in of_currency)
            first = min(credit.day for credit in of_currency)
            self._tell("books", first, currency, 0, found)
            kind = "credit_without_payment" if is_key else "reference_damaged"
            self._note(kind if found else "", 0, found, currency)

    def _note(self, kind: str, expected: int, found: int, currency: str) -> None:
        if kind:
            self.found[kind, expected, found, currency] += 1
