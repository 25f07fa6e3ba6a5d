"""The sample orders show every kind of order, and are the same every time."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import Settings
from rest_framework.authtoken.models import Token

from payments.limits import limits_of
from returns.models import Order
from returns.order_facts import OrderFacts, refuse_contradictions
from returns.permissions import groups_of
from returns.samples import sample_orders
from tests.sandboxes import SandboxProvider


def test_the_samples_are_the_same_every_time() -> None:
    assert sample_orders() == sample_orders()


def test_every_sample_adds_up() -> None:
    for order in sample_orders():
        refuse_contradictions(order, ("stripe", "manual"))


def test_the_samples_show_every_kind_of_order(settings: Settings) -> None:
    orders = sample_orders()

    def count(kind: Any) -> int:
        return sum(bool(kind(order)) for order in orders)

    assert len(orders) >= 60
    assert {order.currency for order in orders} >= {"EUR", "USD", "GBP", "JPY", "KWD"}
    for kind in (
        lambda order: order.discount_minor,
        lambda order: any(line.discount_minor for line in order.lines),
        lambda order: any(line.tax_minor for line in order.lines),
        lambda order: any(line.quantity > 1 for line in order.lines),
        lambda order: order.shipping_minor,
        lambda order: len(order.tenders) > 1,
        lambda order: not order.delivered,
        lambda order: order.past_refunds,
        lambda order: any(tender.provider == "manual" for tender in order.tenders),
        lambda order: order.currency == "KWD" and order.total_minor % 10,
    ):
        assert 3 <= count(kind) <= len(orders) - 3
    assert count(lambda order: _needs_two_managers(order, settings)) >= 1


def test_the_first_samples_are_paid_by_one_card() -> None:
    for order in sample_orders()[:3]:
        assert order.currency in ("EUR", "USD")
        assert order.delivered
        assert [tender.provider for tender in order.tenders] == ["stripe"]


def _needs_two_managers(order: OrderFacts, settings: Settings) -> bool:
    limits = limits_of(order.currency, settings.APPROVAL_LIMITS)
    return order.delivered and limits.single_minor < order.total_minor <= limits.most_minor


@pytest.mark.django_db
def test_loading_twice_changes_nothing_and_the_provider_knows_every_card(
    provider: SandboxProvider,
) -> None:
    call_command("load_samples", stdout=StringIO())
    before = list(Order.objects.order_by("pk").values())
    output = StringIO()
    call_command("load_samples", stdout=output)
    assert output.getvalue() == f"Sample orders: 0 created, {len(before)} were there\n"
    assert list(Order.objects.order_by("pk").values()) == before
    cards = [t for order in sample_orders() for t in order.tenders if t.provider == "stripe"]
    seeded = provider.control(
        "payments",
        [
            {"payment": t.payment, "amount": t.amount_minor, "currency": order.currency}
            for order in sample_orders()
            for t in order.tenders
            if t.provider == "stripe"
        ],
    )
    assert seeded == {"created": 0, "unchanged": len(cards)}


@pytest.mark.django_db
def test_samples_and_demo_accounts_have_no_place_in_production(settings: Settings) -> None:
    settings.PRODUCTION = True
    for command in ("load_samples", "demo_accounts"):
        with pytest.raises(CommandError):
            call_command(command)
    assert not Order.objects.exists()
    assert not User.objects.exists()


@pytest.mark.django_db
def test_demo_accounts_are_who_they_were_after_a_second_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("integration", "online", "manager", "finance")
    drawn = {
        "passwords": {name: f"word-of-{name}" for name in ("desk", "manager", "finance", "admin")},
        "tokens": {name: name[0] * 40 for name in names},
    }
    (tmp_path / "secrets.json").write_text(json.dumps(drawn))
    monkeypatch.setenv("DEMO_SECRETS", str(tmp_path / "secrets.json"))
    first, passwords = _accounts(), list(User.objects.order_by("pk").values("username", "password"))
    assert _accounts() == first
    assert list(User.objects.order_by("pk").values("username", "password")) == passwords
    for name, word in drawn["passwords"].items():
        user = User.objects.get(username=name)
        assert user.check_password(word)
        assert groups_of(user) == {name}
        assert user.is_superuser == (name == "admin")
    for name in names:
        assert first["tokens"][name] == drawn["tokens"][name]
    online = Token.objects.get(key="o" * 40).user
    assert groups_of(online) == {"desk"}
    assert not online.has_usable_password()


def _accounts() -> dict[str, Any]:
    output = StringIO()
    call_command("demo_accounts", json=True, stdout=output)
    accounts: dict[str, Any] = json.loads(output.getvalue())
    return accounts
