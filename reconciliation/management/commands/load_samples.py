"""Load the sample orders."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlparse

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models.functions import Upper

from reconciliation.drills.sandboxes import SandboxProvider
from returns.models import Order
from returns.order_facts import OrderFacts
from returns.order_import import importer
from returns.ordering import confirm_order
from returns.samples import sample_orders


class Command(BaseCommand):
    help = (
        "Loads the sample orders and registers their card payments at the sandbox provider, so "
        "that they can be paid back. Running it again changes nothing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Load what is not there yet; refuses in production."""
        if settings.PRODUCTION:
            raise CommandError("Sample orders have no place in production.")
        orders, by = sample_orders(), importer()
        # What people have made of an order since is theirs.
        missing = _missing(orders)
        for order in missing:
            confirm_order(number=order.number, facts=order, by=by)
        if _is_sandbox(settings.STRIPE_API_BASE):
            provider = SandboxProvider(settings.STRIPE_API_BASE)
            provider.register_payments(_card_payments(orders))
        else:
            self.stderr.write("No sandbox provider is configured: nobody knows the payments.")
        there = len(orders) - len(missing)
        self.stdout.write(f"Sample orders: {len(missing)} created, {there} were there")


def _missing(orders: list[OrderFacts]) -> list[OrderFacts]:
    numbers = [order.number for order in orders]
    upper = Order.objects.annotate(upper=Upper("number")).filter(upper__in=numbers)
    there = set(upper.values_list("upper", flat=True))
    return [order for order in orders if order.number not in there]


def _is_sandbox(url: str) -> bool:
    """Whether the provider is one of this machine."""
    host = urlparse(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _card_payments(orders: list[OrderFacts]) -> list[dict[str, Any]]:
    return [
        {"payment": tender.payment, "amount": tender.amount_minor, "currency": order.currency}
        for order in orders
        for tender in order.tenders
        if tender.provider == "stripe"
    ]
