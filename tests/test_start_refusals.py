"""What the product refuses to start with: `manage.py check` says so before any process runs."""

from __future__ import annotations

import pytest
from django.conf import settings as configured
from django.core.checks import run_checks
from pytest_django import Settings

from config import checks


def codes() -> list[str]:
    """The project's own complaints about the settings as they are."""
    return [str(found.id) for found in run_checks() if str(found.id).startswith("refunds.")]


def test_the_settings_as_shipped_are_accepted() -> None:
    assert codes() == []


@pytest.mark.parametrize(("timeout", "retry"), [(120, 120), (120, 119), (120, 1)])
def test_a_queue_that_repeats_a_message_before_its_work_can_end_is_refused(
    settings: Settings, timeout: int, retry: int
) -> None:
    """RC-02: a message delivered again while its first delivery still runs."""
    settings.Q_CLUSTER = {**configured.Q_CLUSTER, "timeout": timeout, "retry": retry}
    assert set(codes()) == {"refunds.E001"}


def test_each_queues_own_numbers_are_looked_at(settings: Settings) -> None:
    books = {"workers": 1, "timeout": 600, "retry": 600}
    settings.Q_CLUSTER = {
        **configured.Q_CLUSTER,
        "ALT_CLUSTERS": {configured.MONEY_QUEUE: {}, configured.BOOKS_QUEUE: books},
    }
    (complaint,) = checks.queues_wait_longer_than_they_work(None)
    assert configured.BOOKS_QUEUE in complaint.msg


def test_a_queue_inherits_what_it_does_not_say(settings: Settings) -> None:
    """A longer time-out on one queue alone overtakes the shared retry."""
    settings.Q_CLUSTER = {
        **configured.Q_CLUSTER,
        "ALT_CLUSTERS": {"slow": {"timeout": configured.Q_CLUSTER["retry"]}},
    }
    assert codes() == ["refunds.E001"]


def test_a_lease_that_ends_before_its_call_is_refused(settings: Settings) -> None:
    settings.OUTBOUND_TIMING = {"lease_seconds": 15, "call_seconds": 12, "margin_seconds": 3}
    assert codes() == ["refunds.E002"]


def test_production_refuses_to_pay_by_a_sandbox(settings: Settings) -> None:
    settings.PRODUCTION = True
    settings.STRIPE_API_BASE = "http://127.0.0.1:8001"
    settings.ERP_URL = "https://erp.example"
    assert codes() == ["refunds.E003"]
    settings.STRIPE_API_BASE = "https://api.stripe.com"
    assert codes() == []
