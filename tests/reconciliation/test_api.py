"""What a person must close, as a program sees it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from reconciliation import mismatches
from reconciliation.mismatches import DOUBT_BEFORE_A_PERSON
from reconciliation.models import ErpPosting, Mismatch
from reconciliation.posting import open_postings
from reconciliation.tasks import post_operations
from returns.models import RefundOperation, RefusedAttempt
from returns.states import OperationState, TaskState
from tests import factories
from tests.api_client import Api
from tests.oracle import nothing_changes
from tests.sandboxes import SandboxErp, SandboxProvider

pytestmark = pytest.mark.django_db


@pytest.fixture
def finance() -> Api:
    return Api(factories.finance())


@pytest.fixture
def manager() -> Api:
    return Api(factories.manager())


def doubtful() -> RefundOperation:
    """A return whose payment has been in doubt for so long that a person must hear of it."""
    operation = factories.reserved()
    operation.payments.update(state=TaskState.SENDING)
    operation.payments.update(
        state=TaskState.UNKNOWN, first_sent_at=timezone.now() - 2 * DOUBT_BEFORE_A_PERSON
    )
    mismatches.open_new()
    return operation


def resolved(api: Api, mismatch: Mismatch, **body: Any) -> Any:
    return api.post(f"mismatches/{mismatch.pk}/resolve/", body)


class TestReading:
    def test_a_mismatch_names_its_return_its_payment_and_what_is_at_stake(
        self, finance: Api
    ) -> None:
        operation = doubtful()
        (row,) = finance.get("mismatches/").body["results"]
        assert (row["kind"], row["status"]) == ("stuck_payment", "open")
        assert row["operation"] == str(operation.operation_key)
        assert (row["reference"], row["order"]) == (operation.reference, operation.order.number)
        assert row["payment"] == operation.payments.get().pk
        assert (row["at_stake"], row["currency"]) == ("100.00", "USD")
        assert (row["resolution"], row["resolved_by"], row["resolved_at"]) == ("", None, None)

    def test_mismatches_are_listed_oldest_first_and_filtered(self, finance: Api) -> None:
        first, second = doubtful(), doubtful()
        resolved(
            finance, Mismatch.objects.get(operation=first), resolution="chase", reason="as agreed"
        )

        def listed(**query: str) -> list[str]:
            rows = finance.get("mismatches/", **query).body["results"]
            return [row["reference"] for row in rows]

        assert listed() == [first.reference, second.reference]
        assert listed(status="open") == [second.reference]
        assert listed(status="resolved", kind="stuck_payment") == [first.reference]
        assert listed(kind="amount_differs") == []

    @pytest.mark.parametrize("query", ["status=closed", "kind=odd", "sort=age"])
    def test_a_filter_that_is_not_understood_is_refused(self, finance: Api, query: str) -> None:
        assert finance.get(f"mismatches/?{query}").status == 400

    def test_only_finance_reads_mismatches(self, manager: Api) -> None:
        answer = manager.get("mismatches/")
        assert (answer.status, answer.code) == (403, "role")

    def test_a_list_costs_the_same_however_long_it_is(self, finance: Api) -> None:
        def statements() -> int:
            with CaptureQueriesContext(connection) as captured:
                finance.get("mismatches/")
            return len(captured)

        doubtful()
        one = statements()
        for _ in range(3):
            doubtful()
        assert statements() == one


class TestResolving:
    def test_a_mismatch_is_closed_once_with_a_reason(self, finance: Api) -> None:
        doubtful()
        mismatch = Mismatch.objects.get()
        answer = resolved(finance, mismatch, resolution="chase", reason="asked the provider")
        assert (answer.status, answer.body["status"]) == (200, "resolved")
        assert answer.body["resolved_by"] == "finance"
        with nothing_changes():
            again = resolved(finance, mismatch, resolution="chase", reason="asked the provider")
        assert (again.status, again.body) == (200, answer.body)

    @pytest.mark.parametrize("by_reference", [True, False])
    def test_a_mismatch_is_linked_to_a_return(self, finance: Api, by_reference: bool) -> None:
        doubtful()
        other = factories.received()
        name = other.reference if by_reference else str(other.operation_key)
        answer = resolved(
            finance, Mismatch.objects.get(), resolution="link", reason="its own", operation=name
        )
        assert (answer.status, answer.body["reference"]) == (200, other.reference)

    def test_a_closed_mismatch_is_not_closed_in_another_way(self, finance: Api) -> None:
        doubtful()
        mismatch = Mismatch.objects.get()
        resolved(finance, mismatch, resolution="chase", reason="asked them")
        with nothing_changes():
            answer = resolved(finance, mismatch, resolution="accept", reason="too small")
        assert (answer.status, answer.code) == (409, "wrong_state")

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"resolution": "chase"}, "reason"),
            ({"resolution": "chase", "reason": ""}, "reason"),
            ({"resolution": "chase", "reason": "  "}, "reason"),
            ({"resolution": "ignore", "reason": "as agreed"}, "resolution"),
            ({"resolution": "righted", "reason": "as agreed"}, "resolution"),
            ({"resolution": "link", "reason": "as agreed"}, "operation"),
            ({"resolution": "link", "reason": "as agreed", "operation": 5}, "operation"),
            ({"resolution": "chase", "reason": "as agreed", "amount": "5.00"}, "amount"),
        ],
    )
    def test_a_resolution_that_is_not_understood_whole_is_refused(
        self, finance: Api, body: dict[str, Any], field: str
    ) -> None:
        doubtful()
        with nothing_changes():
            answer = resolved(finance, Mismatch.objects.get(), **body)
        assert (answer.status, list(answer.fields)) == (400, [field])

    def test_a_link_to_an_unknown_return_is_refused(self, finance: Api) -> None:
        doubtful()
        with nothing_changes():
            answer = resolved(
                finance,
                Mismatch.objects.get(),
                resolution="link",
                reason="as agreed",
                operation="R-404",
            )
        assert (answer.status, answer.code) == (404, "unknown_return")

    def test_above_the_limit_a_second_account_confirms_what_it_has_read(
        self, finance: Api, settings: Settings
    ) -> None:
        settings.RESOLUTION_LIMITS = {"other": "99.99"}
        doubtful()
        mismatch = Mismatch.objects.get()
        proposed = resolved(
            finance, mismatch, resolution="accept", reason="as agreed", evidence="memo 4"
        ).body
        assert (proposed["status"], proposed["proposed_by"]) == ("open", "finance")
        assert (proposed["resolution"], proposed["evidence"]) == ("accept", "memo 4")
        path, body = f"mismatches/{mismatch.pk}/confirm/", {"proposed_at": proposed["proposed_at"]}
        mine = finance.post(path, body)
        assert (mine.status, mine.code) == (403, "own_proposal")
        other = Api(factories.person("second-finance", "finance"))
        stale = other.post(path, {"proposed_at": "2026-01-01T00:00:00Z"})
        assert (stale.status, stale.code) == (409, "stale")
        assert other.post(path, body).body["resolved_by"] == "second-finance"

    def test_above_the_limit_a_second_account_may_turn_it_down(
        self, finance: Api, settings: Settings
    ) -> None:
        settings.RESOLUTION_LIMITS = {"other": "99.99"}
        doubtful()
        mismatch = Mismatch.objects.get()
        resolved(finance, mismatch, resolution="accept", reason="as agreed")
        other = Api(factories.person("second-finance", "finance"))
        answer = other.post(f"mismatches/{mismatch.pk}/turn-down/", {"reason": "never agreed"})
        assert (answer.body["status"], answer.body["proposed_by"]) == ("open", None)

    @pytest.mark.parametrize("pk", [404, 10**30])
    def test_an_unknown_mismatch_is_not_found(self, finance: Api, pk: int) -> None:
        answer = finance.post(
            f"mismatches/{pk}/resolve/", {"resolution": "chase", "reason": "asked them"}
        )
        assert (answer.status, answer.code) == (404, "unknown_mismatch")

    def test_a_manager_may_not_and_the_attempt_is_on_record(self, manager: Api) -> None:
        doubtful()
        with nothing_changes():
            answer = resolved(
                manager, Mismatch.objects.get(), resolution="chase", reason="as agreed"
            )
        assert (answer.status, answer.code) == (403, "role")
        assert RefusedAttempt.objects.get().verb == "resolve_mismatch"


class TestPostingAgain:
    def path(self, operation: RefundOperation) -> str:
        return f"returns/{operation.operation_key}/post-again/"

    @pytest.mark.django_db(transaction=True)
    def test_finance_has_a_refused_credit_tried_again(
        self, finance: Api, provider: SandboxProvider, erp: SandboxErp
    ) -> None:
        operation = factories.reserved()
        provider.know_payments()
        factories.pay(operation)
        open_postings()
        erp.fault("closed_period")
        post_operations([operation.pk])
        refused = ErpPosting.objects.get(operation=operation)
        assert refused.state == TaskState.STUCK

        assert finance.post(self.path(operation)).status == 200

        post_operations([operation.pk])
        assert factories.fresh(operation).state == OperationState.POSTED
        with nothing_changes():
            assert finance.post(self.path(operation)).body["state"] == "posted"

    def test_only_finance_may_and_only_where_something_is_posted(
        self, finance: Api, manager: Api
    ) -> None:
        operation = factories.received()
        answer = manager.post(self.path(operation))
        assert (answer.status, answer.code) == (403, "role")
        answer = finance.post(self.path(operation))
        assert (answer.status, answer.code) == (404, "unknown_posting")
        assert finance.post("returns/R-999999/post-again/").code == "unknown_return"
