"""The explorer itself: it counts right, sees who waits for a lock, and finds a bad interleaving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from django.db import transaction

from returns.models import Order
from tests import factories
from tests.explorer.actors import Actor, Player, turn
from tests.explorer.explore import WrongEnd, explore, replay

pytestmark = pytest.mark.django_db(transaction=True)


def _two(verb: Callable[[], object]) -> Sequence[Actor]:
    return [Actor("A", verb), Actor("B", verb)]


def _no_errors(players: Sequence[Player]) -> None:
    assert [player.error for player in players if player.error] == []


def test_all_interleavings_of_three_steps_each_are_twenty() -> None:
    def verb() -> None:
        turn("one")
        turn("two")

    assert explore(lambda: _two(verb), _no_errors) == 20


def test_who_waits_for_a_lock_is_not_asked_to_go_on() -> None:
    order = factories.OrderFactory.create()
    inside: list[int] = []

    def verb() -> None:
        with transaction.atomic():
            Order.objects.select_for_update().get(pk=order.pk)
            inside.append(1)
            turn("locked")
            assert inside == [1], "two hold the lock"
            inside.clear()

    # A B A B, A A B B, and the same with B first: in the first, B waits until A commits.
    assert explore(lambda: _two(verb), _no_errors) == 4


class Till:
    """Looks whether something is paid and then pays it: right as long as one does it alone."""

    def __init__(self) -> None:
        self.paid = 0

    def open(self) -> Sequence[Actor]:
        self.paid = 0
        return _two(self._pay)

    def _pay(self) -> None:
        if self.paid == 0:
            turn("looked")
            self.paid += 1

    def judge(self, players: Sequence[Player]) -> None:
        _no_errors(players)
        assert self.paid == 1, f"paid {self.paid} times"


def test_looking_before_paying_is_found_out_and_the_schedule_shows_it_again() -> None:
    till = Till()
    with pytest.raises(WrongEnd, match="paid 2 times") as found:
        explore(till.open, till.judge)
    assert found.value.schedule == "A B A B"
    again = partial(replay, till.open, till.judge)
    with pytest.raises(WrongEnd, match="paid 2 times"):
        again(found.value.schedule)
    again("A A B")
