"""What the real code must never do is no trace of the model, and its right twin is one.

Each pair differs in the last step alone, so that a refusal is about that step.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from returns.states import TaskState
from tests.traces.checker import (
    ASKS_AGAIN,
    CLAIM,
    EVENT,
    RECORD,
    SET_ASIDE,
    TIME,
    Checker,
    Step,
    payment_checker,
    posting_checker,
)


def _step(kind: str, what: str = "", lease: int = 0, /, **shows: object) -> Step:
    return Step(kind, what, lease, tuple(shows.items()))


_TIME = _step(TIME)
_SENT = _step(CLAIM, "send", 1, state=TaskState.SENDING)
_NO_ANSWER = (_SENT, _step(RECORD, "unknown", 1, state=TaskState.UNKNOWN, in_doubt=True))
_SEEN_NOTHING = (
    *(*_NO_ANSWER, _TIME, _TIME, _step(CLAIM, "ask", 3)),
    _step(RECORD, "absent", 3, absent="after the last send"),
)
_PAID = (_SENT, _step(RECORD, "settled", 1, state=TaskState.SUCCEEDED))


@dataclass(frozen=True)
class Pair:
    """The same beginning, the step that would be right and the one that is not."""

    begins: tuple[Step, ...]
    right: Step
    wrong: Step


PAIRS = {
    "sent again before anybody asked": Pair(
        _NO_ANSWER, _step(CLAIM, "ask", 3), _step(CLAIM, "send", 3)
    ),
    "sent again on a look-up too early": Pair(
        (*_NO_ANSWER, _step(CLAIM, "ask", 3), _step(RECORD, "absent", 3, absent="too early")),
        _step(CLAIM, "ask", 5),
        _step(CLAIM, "send", 5),
    ),
    "sent when the key may be forgotten": Pair(
        (*_SEEN_NOTHING, _TIME, _TIME),
        _step(SET_ASIDE, state=TaskState.STUCK, has_word=True, window="closed"),
        _step(CLAIM, "send", 5),
    ),
    "set aside without a word": Pair(
        (*_SEEN_NOTHING, _TIME, _TIME),
        _step(SET_ASIDE, has_word=True),
        _step(SET_ASIDE, has_word=False),
    ),
    "recorded by an overtaken worker": Pair(
        (_SENT, _TIME, _step(CLAIM, "ask", 2, state=TaskState.UNKNOWN, in_doubt=True, deaths=1)),
        _step(RECORD, "settled", 2),
        _step(RECORD, "settled", 1),
    ),
    "recorded although news has ended the lease": Pair(
        (_SENT, _step(EVENT, "pending", state=TaskState.ACCEPTED, lease="none")),
        _step(EVENT, "paid"),
        _step(RECORD, "settled", 1),
    ),
    "claimed while another worker holds it": Pair(
        (_SENT,),
        _step(TIME, lease="ended"),
        _step(CLAIM, "ask", 2),
    ),
    "declined while in doubt": Pair(
        (*_SEEN_NOTHING, _step(CLAIM, "send", 5)),
        _step(RECORD, "refused", 5, state=TaskState.UNKNOWN, refused_in_doubt=True),
        _step(RECORD, "refused", 5, state=TaskState.DECLINED),
    ),
    "paid although nothing was found": Pair(
        _SEEN_NOTHING[:-1],
        _step(RECORD, "absent", 3, state=TaskState.UNKNOWN),
        _step(RECORD, "absent", 3, state=TaskState.SUCCEEDED),
    ),
    "paid although nothing was sent": Pair(
        (), _step(CLAIM, "send", 1), _step(EVENT, "paid", state=TaskState.SUCCEEDED)
    ),
    "found absent although it was seen": Pair(
        (*_PAID, _TIME, _step(ASKS_AGAIN), _step(CLAIM, "ask", 3)),
        _step(RECORD, "settled", 3),
        _step(RECORD, "absent", 3),
    ),
    "a success forgotten": Pair(
        (*_PAID, _step(ASKS_AGAIN)), _step(CLAIM, "ask", 3), _step(CLAIM, "send", 3)
    ),
}

_DRAFT = (_SENT, _step(RECORD, "accepted", 1, state=TaskState.ACCEPTED))
_REFUSED = (_SENT, _step(RECORD, "refused", 1, state=TaskState.STUCK, has_word=True))

IN_THE_BOOKS = {
    "a second draft beside the first": Pair(
        _DRAFT, _step(CLAIM, "ask", 3), _step(CLAIM, "send", 3)
    ),
    "declined by a refusal": Pair(
        _REFUSED[:1], _REFUSED[1], _step(RECORD, "refused", 1, state=TaskState.DECLINED)
    ),
    "taken up again before a person wants it": Pair(
        _REFUSED, _step(ASKS_AGAIN, state=TaskState.UNKNOWN), _step(CLAIM, "ask", 3)
    ),
    "posted although there was no draft": Pair(
        (*_REFUSED, _step(ASKS_AGAIN), _step(CLAIM, "ask", 3)),
        _step(RECORD, "absent", 3, state=TaskState.UNKNOWN),
        _step(RECORD, "settled", 3),
    ),
}


@pytest.fixture(scope="module")
def checker() -> Checker:
    return payment_checker()


@pytest.mark.parametrize("name", PAIRS)
def test_the_wrong_step_is_refused_and_the_right_one_is_not(name: str, checker: Checker) -> None:
    _assert_told_apart(PAIRS[name], checker)


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("name", IN_THE_BOOKS)
def test_so_it_is_in_the_books(name: str, unique: bool) -> None:
    _assert_told_apart(IN_THE_BOOKS[name], posting_checker(unique=unique))


def _assert_told_apart(pair: Pair, checker: Checker) -> None:
    assert checker.follow((*pair.begins, pair.right)) is None
    failure = checker.follow((*pair.begins, pair.wrong))
    assert failure is not None
    assert failure.at == len(pair.begins), str(failure)


def test_a_failure_shows_the_trace_and_the_step(checker: Checker) -> None:
    pair = PAIRS["declined while in doubt"]
    told = str(checker.follow((*pair.begins, pair.wrong)))
    assert ">> record refused (lease 5) -> state=declined" in told
    assert "   claim send (lease 1) -> state=sending" in told
