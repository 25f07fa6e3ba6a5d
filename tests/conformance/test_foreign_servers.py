"""The servers that others wrote: where they listen, and what they are here to show."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from config.ports import HOST
from tests.conformance.foreign_servers import ForeignServer, localstripe, stateful_mock
from tests.conformance.providers import COUNTERPARTS, LocalStripe, StatefulMock


@pytest.mark.parametrize("server", [localstripe, stateful_mock])
def test_a_foreign_server_listens_on_loopback_only_and_ends_with_its_test(
    server: Callable[[], ForeignServer],
) -> None:
    with server().running() as running:
        assert running.listens_on() == {HOST}
        assert httpx.get(running.url).status_code < 500
    with pytest.raises(httpx.ConnectError):
        httpx.get(running.url)


def test_one_server_forgets_keys_at_once_and_pays_too_much_and_one_does_neither() -> None:
    """What the two are for: with the first, nothing but our own rules is in the way."""
    declared = {
        type(counterpart): (counterpart.honours_keys, counterpart.refuses_over_refunds)
        for counterpart in COUNTERPARTS
    }
    assert declared[LocalStripe] == (False, False)
    assert declared[StatefulMock] == (True, True)
