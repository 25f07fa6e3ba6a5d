"""Fixtures of the tests of payments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings


@pytest.fixture(scope="module")
def secret() -> Iterator[None]:
    """Of the whole module, because the oracle delivers every event once more after each test."""
    with override_settings(STRIPE_WEBHOOK_SECRET="whsec_for_tests"):
        yield
