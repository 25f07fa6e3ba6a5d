"""The servers that others wrote: where they listen, and what they are here to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from pytest_django import Settings

from config.ports import HOST
from payments.outcomes import Deferred
from payments.providers.base import PaymentOrder
from payments.providers.stripe import StripeProvider
from tests.conformance import foreign_servers
from tests.conformance.foreign_servers import ForeignServer, localstripe, stateful_mock
from tests.conformance.providers import COUNTERPARTS, LocalStripe, StatefulMock

EACH = pytest.mark.parametrize("server", [localstripe, stateful_mock])


@EACH
def test_a_foreign_server_listens_on_loopback_only_and_ends_with_its_test(
    server: Callable[[], ForeignServer],
) -> None:
    with server().running() as running:
        assert running.listens_on() == {HOST}
        assert httpx.get(running.url).status_code < 500
    with pytest.raises(httpx.ConnectError):
        httpx.get(running.url)


def test_their_locks_are_hashed_and_name_no_registry() -> None:
    lock, npm_lock = (
        (foreign_servers.LAUNCHERS / name).read_text()
        for name in ("localstripe.txt", "package-lock.json")
    )
    assert "://" not in lock
    assert '"resolved"' not in npm_lock
    assert "--hash=sha256:" in lock
    assert '"integrity": "sha512-' in npm_lock


def test_one_server_forgets_keys_at_once_and_pays_too_much_and_one_does_neither() -> None:
    """What the two are for: with the first, nothing but our own rules is in the way."""
    declared = {
        type(counterpart): (counterpart.honours_keys, counterpart.refuses_over_refunds)
        for counterpart in COUNTERPARTS
    }
    assert declared[LocalStripe] == (False, False)
    assert declared[StatefulMock] == (True, True)


@EACH
def test_credentials_that_a_server_of_others_refuses_stop_the_account(
    server: Callable[[], ForeignServer], settings: Settings
) -> None:
    settings.STRIPE_API_KEY = "nobody"
    order = PaymentOrder(uuid4(), uuid4(), "R-1", "W1", "ch_1", 100, "USD")
    with server().running() as running:
        settings.STRIPE_API_BASE = running.url
        for outcome in (StripeProvider().pay(order), StripeProvider().find(order)):
            assert isinstance(outcome, Deferred)
            assert outcome.stops_account


@EACH
def test_a_server_that_is_not_installed_is_a_reason_to_skip_and_in_ci_to_fail(
    server: Callable[[], ForeignServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(foreign_servers, "INSTALLED", tmp_path / "servers")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        server()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not installed"):
        server()
