"""The search itself, on worlds small enough to be counted by hand."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.search import dead_ends, search

WAYS = {"a": "bc", "b": "d", "c": "d", "d": "ae", "e": "", "f": "a"}


def _steps(state: str) -> Iterator[tuple[str, str]]:
    for after in WAYS[state]:
        yield f"to {after}", after


def _never(before: str, after: str) -> str:
    return ""


def test_every_reachable_state_is_seen_once() -> None:
    found = search("a", _steps, _never)
    assert found.states == ["a", "b", "c", "d", "e"]
    assert found.steps == 6
    # a; b; c; d by either; e by either.
    assert found.interleavings == 1 + 1 + 1 + 2 + 2


def test_the_nearest_harm_is_found_with_its_way() -> None:
    found = search("a", _steps, lambda *step: "bad" if step[1] == "d" else "")
    assert (found.harm, found.path) == ("bad", ["to b", "to d"])


def test_harm_may_lie_in_a_step_between_two_good_states() -> None:
    found = search("a", _steps, lambda *step: "back" if step == ("d", "a") else "")
    assert found.path == ["to b", "to d", "to a"]


def test_states_without_a_way_to_the_goal_are_dead_ends() -> None:
    found = search("a", _steps, _never)
    assert dead_ends(found, lambda state: state == "e") == []
    assert dead_ends(found, lambda state: state == "b") == ["e"]
