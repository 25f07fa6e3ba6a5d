"""Settings: the project's own refusals, the secrets, and whether all point to the same world."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlparse
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.core import checks

from reconciliation.management.examinations.finding import Finding

# What settings.py puts where nothing was given.
_PLACEHOLDER = "not-a-secret-"
_SHORTEST_SECRET = 40
_LIVE_KEYS = ("sk_live_", "rk_live_")


def examine() -> Iterator[Finding]:
    """Needs neither database nor network."""
    yield from _system_checks()
    yield _secret("SECRET_KEY", settings.SECRET_KEY)
    yield _provider_key()
    yield _webhook_secret()
    yield _store_time_zone()


def _system_checks() -> Iterator[Finding]:
    """The refusals of `manage.py check`, among them a queue that repeats before it times out."""
    messages = checks.run_checks(include_deployment_checks=settings.PRODUCTION)
    serious = [message for message in messages if message.level >= checks.WARNING]
    for message in serious:
        yield Finding(f"check {message.id}", False, message.msg, message.hint or "See the text.")
    if not serious:
        yield Finding("checks", True, "manage.py check has no complaint", "")


def _secret(name: str, value: str) -> Finding:
    fit = len(value) >= _SHORTEST_SECRET and not value.startswith(_PLACEHOLDER)
    return Finding(
        name,
        fit or not settings.PRODUCTION,
        "set" if fit else "a placeholder, or short",
        f"Set {name} to at least {_SHORTEST_SECRET} random characters.",
    )


def _provider_key() -> Finding:
    """A live key must never meet a sandbox, nor a test key real customers."""
    key, host = settings.STRIPE_API_KEY, urlparse(settings.STRIPE_API_BASE).hostname
    live = key.startswith(_LIVE_KEYS)
    return Finding(
        "payment provider's mode",
        live == settings.PRODUCTION == settings.STRIPE_LIVE_MODE,
        f"{'live' if live else 'test'} key, {settings.DJANGO_ENV} environment, {host}",
        "In production STRIPE_API_KEY is a live key (sk_live_ or rk_live_); elsewhere it is not.",
    )


def _webhook_secret() -> Finding:
    there = bool(settings.STRIPE_WEBHOOK_SECRET)
    return Finding(
        "webhook secret",
        there or not settings.PRODUCTION,
        "set" if there else "not set: the webhook endpoint does not exist",
        "Set STRIPE_WEBHOOK_SECRET; without it news of failed refunds comes late.",
    )


def _store_time_zone() -> Finding:
    name = settings.STORE_TIME_ZONE
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return Finding("store time zone", False, f"{name} is unknown", "Set STORE_TIME_ZONE.")
    return Finding("store time zone", True, name, "")
