"""The configured adapters, by name."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from payments.providers.base import Provider


@cache
def provider(name: str) -> Provider:
    """The adapter of this name. Raises KeyError for one that is not configured."""
    adapter: Provider = import_string(settings.PAYMENT_PROVIDERS[name])()
    return adapter
