"""The system under test: this product, unless `--driver` names another one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.drivable.driver import RefundSystem
from tests.oracle import assert_oracle


@pytest.fixture
def system(request: pytest.FixtureRequest) -> Iterator[RefundSystem]:
    named = request.config.getoption("--driver")
    if named:
        module, _, name = named.partition(":")
        with getattr(import_module(module), name)() as system:
            yield system
        return
    # Another system needs none of these.
    web, provider, erp = map(request.getfixturevalue, ("live_server", "provider", "erp"))
    with import_module("tests.drivable.ours").RefundDesk(web.url, provider) as desk:
        yield desk
    assert_oracle(provider, erp)
