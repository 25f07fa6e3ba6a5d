"""What must hold at every commit, asked of the database and of both sandboxes.

Every complaint names the row it is about. `nothing_changes` and `refused` say the same of a
refusal: nothing but the record of it was written.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.models import Sum
from django_q.models import OrmQ

from payments import webhooks
from payments.capabilities import BY_PROVIDER
from payments.models import Heartbeat, OutboundRow, PaymentTask, ProviderEvent
from payments.providers.stripe import TIMES_HUNDRED_AT_STRIPE
from reconciliation.models import ErpPosting, Mismatch
from returns import intake
from returns.errors import RefundDeskError
from returns.models import (
    ExternalRefund,
    IntakeMessage,
    OrderBalance,
    RefundOperation,
    RefusedAttempt,
    TenderBalance,
)
from returns.models.orders import Balance
from returns.return_request import Goodwill, Item, ReturnRequest
from returns.states import TASK_FINAL, OperationState, TaskState
from tests.sandboxes import Credits, Json, MoneyOuts

Refusal = TypeVar("Refusal", bound=RefundDeskError)
Snapshot = set[tuple[str, str]]

# In these states a payment of the present round no longer holds any of the reservation.
_NOT_HELD = (TaskState.SUCCEEDED, TaskState.RETURNED)


@dataclass(frozen=True)
class _OpenItems:
    """What a person is asked about: payments, postings, operations, and every word said."""

    payments: set[int]
    postings: set[int]
    operations: set[int]
    told: str

    def name(self, reference: str) -> bool:
        """Whether a person is told of this, or it has been booked as not ours."""
        return reference in self.told or ExternalRefund.objects.filter(reference=reference).exists()


def assert_oracle(provider: MoneyOuts | None = None, erp: Credits | None = None) -> None:
    """Assert all of it; without the two, what the database alone can answer."""
    assert_figures(provider.ledger() if provider else None, erp.entries() if erp else None)
    assert_replay_changes_nothing()


def assert_figures(
    money_outs: list[Json] | None = None,
    entries: list[Json] | None = None,
    unheard: Collection[str] = (),
) -> None:
    """Assert the figures of this moment: ours, and those of the provider's and the ERP's books.

    `unheard` are refunds about which the provider has not told us everything yet: one that we call
    paid may have come back meanwhile.
    """
    tasks = list(PaymentTask.objects.select_related("operation"))
    postings = list(ErpPosting.objects.select_related("operation"))
    items = _open_items()
    complaints = [
        *_about_balances(tasks),
        *_about_operations(tasks),
        *_about_forgotten_rows("payment", tasks, items.payments),
        *_about_forgotten_rows("posting", postings, items.postings),
        *(_about_the_provider(tasks, money_outs, items, unheard) if money_outs is not None else ()),
        *(_about_the_erp(postings, entries, items) if entries is not None else ()),
    ]
    assert complaints == []


def assert_replay_changes_nothing() -> None:
    """Every stored message and event delivered once more."""
    messages = list(IntakeMessage.objects.select_related("operation", "submitted_by"))
    events = list(ProviderEvent.objects.filter(provider="stripe"))
    if not messages and not events:
        return
    before = snapshot()
    for message in messages:
        taken = intake.open_or_join(request=_as_asked(message.request), by=message.submitted_by)
        assert taken.replayed, f"message {message} was taken in again"
        assert taken.operation == message.operation, f"message {message} got another answer"
    for event in events:
        webhooks.receive(name="stripe", body=event.body.encode(), headers=_signed(event.body))
    _assert_same(before, snapshot())


@contextmanager
def nothing_changes() -> Iterator[None]:
    """No row of the product and no queue message changes, but for records of refusals."""
    before = snapshot()
    yield
    _assert_same(before, snapshot())


@contextmanager
def refused(error: type[Refusal], **facts: object) -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """The block is refused with these facts (`code` included), and nothing has changed.

    The refusal itself is kept for the audit, exactly once.
    """
    audited = RefusedAttempt.objects.count()
    with nothing_changes(), pytest.raises(error) as refusal:
        yield refusal
    said = {"code": refusal.value.code, **refusal.value.facts}
    assert {name: said.get(name) for name in facts} == facts
    assert RefusedAttempt.objects.count() == audited + 1


def snapshot() -> Snapshot:
    """Every row of the product and of its queue, but for refusals and signs of life."""
    models = [
        model
        for app in ("returns", "payments", "reconciliation")
        for model in apps.get_app_config(app).get_models()
        if model not in (RefusedAttempt, Heartbeat)
    ]
    tables = [model._meta.db_table for model in [*models, OrmQ]]
    rows = " UNION ALL ".join(
        f"SELECT '{table}', to_jsonb(kept)::text FROM {table} AS kept"  # noqa: S608
        for table in tables
    )
    with connection.cursor() as cursor:
        cursor.execute(rows)
        return set(cursor.fetchall())


def _assert_same(before: Snapshot, after: Snapshot) -> None:
    assert sorted(before ^ after) == []


def _held(tasks: list[PaymentTask]) -> list[PaymentTask]:
    """Payments whose money is reserved: the present round of reserved operations, not yet paid."""
    return [
        task
        for task in tasks
        if task.operation.state == OperationState.RESERVED
        and task.generation == task.operation.pay_rounds
        and task.state not in _NOT_HELD
    ]


def _about_balances(tasks: list[PaymentTask]) -> Iterator[str]:
    reserved: Counter[int] = Counter()
    refunded: Counter[int] = Counter()
    external: Counter[int] = Counter()
    for task in _held(tasks):
        reserved[task.tender_id] += task.amount_minor
    for task in tasks:
        if task.state == TaskState.SUCCEEDED:
            refunded[task.tender_id] += task.amount_minor
    for row in ExternalRefund.objects.all():
        external[row.tender_id] += row.amount_minor
    for balance in TenderBalance.objects.select_related("tender"):
        tender = balance.tender_id
        captured = balance.tender.amount_minor
        expected = (captured, reserved[tender], refunded[tender], external[tender])
        yield from _balance_complaints(f"tender {tender}", balance, expected)
    yield from _about_order_balances()


def _about_order_balances() -> Iterator[str]:
    names = ("captured_minor", "reserved_minor", "refunded_minor", "external_minor")
    of_order = OrderBalance.objects.annotate(
        **{f"sum_{name}": Sum(f"order__tenders__balance__{name}", default=0) for name in names}
    )
    for balance in of_order:
        captured, reserved, refunded, external = (
            int(getattr(balance, f"sum_{name}")) for name in names
        )
        expected = (captured, reserved, refunded - external, external)
        yield from _balance_complaints(f"order {balance.order_id}", balance, expected)


def _balance_complaints(
    whose: str, balance: Balance, expected: tuple[int, int, int, int]
) -> Iterator[str]:
    captured, reserved, ours, external = expected
    found = (balance.captured_minor, balance.reserved_minor, balance.refunded_minor)
    if found != (captured, reserved, ours + external) or balance.external_minor != external:
        yield (
            f"{whose}: captured, reserved, refunded are {found} (external {balance.external_minor})"
            f" and should be {(captured, reserved, ours + external)} (external {external})"
        )
    if balance.remaining_minor < 0:
        yield f"{whose}: {-balance.remaining_minor} more is given back than was captured"


def _about_operations(tasks: list[PaymentTask]) -> Iterator[str]:
    paid: Counter[int] = Counter()
    for task in tasks:
        if task.state == TaskState.SUCCEEDED:
            paid[task.operation_id] += task.amount_minor
        is_present = (
            task.operation.state == OperationState.RESERVED
            and task.generation == task.operation.pay_rounds
        )
        if task.state not in TASK_FINAL and not is_present:
            yield f"payment {task.pk} is {task.state}, its operation {task.operation.state}"
    for operation in RefundOperation.objects.all():
        if operation.refunded_minor != paid[operation.pk]:
            made = paid[operation.pk]
            yield f"{operation}: refunded {operation.refunded_minor}, payments made {made}"


def _about_forgotten_rows(
    kind: str, rows: Iterable[OutboundRow], in_a_persons_hands: Collection[int]
) -> Iterator[str]:
    for row in rows:
        looked_at = row.next_look_at is not None or row.pk in in_a_persons_hands
        if row.state not in TASK_FINAL and not looked_at:
            yield f"{kind} {row.pk} is {row.state} and nobody looks at it"


def _open_items() -> _OpenItems:
    found = Mismatch.objects.filter(status=Mismatch.Status.OPEN).values_list(
        "payment_id", "posting_id", "operation_id", "detail"
    )
    payments, postings, operations, details = zip(*found, strict=True) if found else ((),) * 4
    return _OpenItems(set(payments), set(postings), set(operations), " ".join(details))


def _about_the_provider(
    tasks: list[PaymentTask], ledger: list[Json], items: _OpenItems, unheard: Collection[str]
) -> Iterator[str]:
    by_person = [name for name, declared in BY_PROVIDER.items() if declared.by_person]
    by_key = {str(task.wire_key): task for task in tasks if task.provider not in by_person}
    money_out: defaultdict[str, list[Json]] = defaultdict(list)
    for refund in ledger:
        money_out[str(refund["idempotency_key"])].append(refund)
    for key, refunds in money_out.items():
        task = by_key.get(key)
        if task is None:
            yield from (
                f"refund {refund['refund']} belongs to no payment of ours"
                for refund in refunds
                if not items.name(refund["refund"])
            )
            continue
        moved = [refund for refund in refunds if refund["status"] != "failed"]
        if len(moved) > 1:
            yield f"payment {task.pk} left the provider {len(moved)} times: {moved}"
        if task.pk not in items.payments:
            yield from _refund_complaints(task, refunds)
    for key, task in by_key.items():
        if task.state != TaskState.SUCCEEDED or task.next_look_at is not None:
            continue
        out = money_out[key]
        is_news = any(refund["refund"] in unheard for refund in out)
        if not is_news and "succeeded" not in [refund["status"] for refund in out]:
            yield f"payment {task.pk} says paid, the provider says {out}"


def _refund_complaints(task: PaymentTask, refunds: list[Json]) -> Iterator[str]:
    factor = 100 if task.currency in TIMES_HUNDRED_AT_STRIPE else 1
    for refund in refunds:
        found = (refund["amount"], refund["currency"].upper(), refund["operation_key"])
        key = str(task.operation.operation_key)
        if found != (task.amount_minor * factor, task.currency, key):
            yield f"payment {task.pk} of {task.amount_minor} {task.currency} left as {refund}"
        if task.state == TaskState.DECLINED and refund["status"] == "succeeded":
            yield f"payment {task.pk} says declined, the provider has paid {refund['refund']}"


def _about_the_erp(
    postings: list[ErpPosting], entries: list[Json], items: _OpenItems
) -> Iterator[str]:
    by_key = {str(posting.operation.operation_key): posting for posting in postings}
    credits_of: defaultdict[str, list[Json]] = defaultdict(list)
    for entry in entries:
        if entry["reference"] not in by_key:
            yield f"ERP entry {entry['id']} belongs to no paid operation"
        elif entry["state"] == "posted":
            credits_of[entry["reference"]].append(entry)
    for key, posting in by_key.items():
        if posting.operation_id in items.operations:
            continue
        amounts = [_minor(entry) for entry in credits_of[key]]
        owed = [(posting.amount_minor, posting.currency)]
        done = posting.state == TaskState.SUCCEEDED
        if amounts != owed and (done or len(amounts) > 0):
            yield f"posting {posting.pk} of {owed} is {posting.state}, the ERP posted {amounts}"


def _minor(entry: Json) -> tuple[int, str]:
    """The sandbox writes every decimal of the currency, so the digits are the minor units."""
    return int(entry["amount"].replace(".", "")), entry["currency"]


def _as_asked(request: Json) -> ReturnRequest:
    """The request of a stored message."""
    items = tuple(Item(**{**item, "units": tuple(item["units"])}) for item in request["items"])
    extra = Goodwill(**request["goodwill"]) if request["goodwill"] else None
    return ReturnRequest(**{**request, "items": items, "goodwill": extra})


def _signed(body: str) -> dict[str, str]:
    """The headers of a delivery that the provider would make now."""
    now = int(time.time())
    secret = settings.STRIPE_WEBHOOK_SECRET.encode()
    signature = hmac.new(secret, f"{now}.{body}".encode(), hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={now},v1={signature}"}
