"""The system under test: this product, unless `--driver` names another one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.drivable.driver import RefundSystem
from tests.oracle import assert_oracle


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Our own product needs the database of the tests; another system does not."""
    if config.getoption("--driver"):
        return
    for item in items:
        if "system" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture
def system(request: pytest.FixtureRequest) -> Iterator[RefundSystem]:
    named = request.config.getoption("--driver")
    if named:
        module, _, name = named.partition(":")
        with getattr(import_module(module), name)() as system:
            yield system
        return
    web, provider, erp = map(request.getfixturevalue, ("live_server", "provider", "erp"))
    with import_module("tests.drivable.ours").RefundDesk(web.url, provider) as desk:
        yield desk
    assert_oracle(provider, erp)
