"""Decorators, EDGES and database triggers are one and the same machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, models, transaction

from reconciliation.models import ErpPosting
from reconciliation.posting import open_postings
from returns.models import RefundOperation
from returns.states import (
    ENDED,
    OPEN,
    OPERATION_EDGES,
    TASK_EDGES,
    TASK_FINAL,
    Edge,
    OperationState,
    TaskState,
    pairs,
    targets_from,
)
from tests import factories, raw_sql

Edges = tuple[Edge, ...]


def received_operation() -> models.Model:
    operation = factories.received()
    raw_sql.change(operation, amount_minor=10_000)
    return operation


def pending_payment() -> models.Model:
    return factories.reserved().payments.get()


def pending_posting() -> models.Model:
    factories.paid(factories.OrderFactory.create(tenders=[factories.cash(10_000)]))
    open_postings()
    return ErpPosting.objects.get()


MACHINES = [
    pytest.param(OperationState, OPERATION_EDGES, received_operation, id="operation"),
    pytest.param(TaskState, TASK_EDGES, pending_payment, id="payment"),
    pytest.param(TaskState, TASK_EDGES, pending_posting, id="posting"),
]


def move(row: models.Model, state: str) -> None:
    """UPDATE the state, and what the CHECK constraints want to go with it."""
    values: dict[str, Any] = {"state": state}
    if isinstance(row, RefundOperation):
        is_paid = state in (OperationState.PAID, OperationState.POSTED)
        values["refunded_minor"] = 10_000 if is_paid else 0
    raw_sql.change(row, **values)


def path(edges: Edges, first: str, last: str) -> list[str]:
    """The shortest way from one state to another, without the first."""
    paths: dict[str, list[str]] = {first: []}
    for state in (states := [first]):
        for source, target in pairs(edges):
            if source == state and target not in paths:
                paths[target] = [*paths[state], target]
                states.append(target)
    return paths[last]


def test_the_decorators_are_the_table() -> None:
    field: Any = RefundOperation._meta.get_field("state")
    decorated = {
        (step.name, str(step.source), str(step.target))
        for step in field.get_all_transitions(RefundOperation)
    }
    assert decorated == {
        (step.verb, str(source), str(step.target))
        for step in OPERATION_EDGES
        for source in step.sources
    }


@pytest.mark.django_db
@pytest.mark.parametrize(("states", "edges", "first_row"), MACHINES)
def test_the_database_allows_exactly_the_edges_of_the_table(
    states: type[models.TextChoices], edges: Edges, first_row: Callable[[], models.Model]
) -> None:
    row, first = first_row(), str(states.values[0])
    allowed = set()
    for source in states.values:
        with transaction.atomic():
            for step in path(edges, first, source):
                move(row, step)
            for target in states.values:
                if target != source and may_move(row, target):
                    allowed.add((source, target))
            transaction.set_rollback(True)
    assert allowed == set(pairs(edges))


def may_move(row: models.Model, target: str) -> bool:
    """Whether the database lets a row move there; the row stays where it is."""
    try:
        with transaction.atomic():
            move(row, target)
            transaction.set_rollback(True)
    except DatabaseError as error:
        if "Invalid transition" not in str(error):
            raise
        return False
    return True


@pytest.mark.django_db
@pytest.mark.parametrize(("states", "edges", "first_row"), MACHINES)
def test_a_row_is_born_in_the_first_state_only(
    states: type[models.TextChoices], edges: Edges, first_row: Callable[[], models.Model]
) -> None:
    row, first = first_row(), states.values[0]
    for state in states.values:
        if state != first:
            with raw_sql.says_no("cannot insert rows"):
                raw_sql.copy(row, state=state)


def test_final_states_lead_nowhere_but_back_after_a_return() -> None:
    assert [targets_from(OPERATION_EDGES, state) for state in ENDED] == [[], []]
    assert {state: targets_from(TASK_EDGES, state) for state in TASK_FINAL} == {
        TaskState.SUCCEEDED: ["give_back"],
        TaskState.DECLINED: [],
        TaskState.RETURNED: [],
    }


def test_reject_and_withdraw_are_possible_while_no_money_is_reserved() -> None:
    for state in OperationState:
        verbs = targets_from(OPERATION_EDGES, state)
        assert {"reject", "withdraw"}.issubset(verbs) == (state in OPEN)


@pytest.mark.django_db
def test_python_keeps_to_the_table_as_well() -> None:
    operation = factories.received()
    with pytest.raises(AttributeError):
        operation.state = OperationState.PAID
    with pytest.raises(Exception, match="Can't switch from state 'received'"):
        operation.settle()


def test_every_machine_covers_all_its_states() -> None:
    for states, edges in ((OperationState, OPERATION_EDGES), (TaskState, TASK_EDGES)):
        reached = {state for pair in pairs(edges) for state in pair}
        assert reached == set(states.values)
        assert all(path(edges, states.values[0], state) is not None for state in states.values)
