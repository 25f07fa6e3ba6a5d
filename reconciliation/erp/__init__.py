"""The configured ERP."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.utils.module_loading import import_string

from reconciliation.erp.base import Erp


@cache
def erp() -> Erp:
    """The adapter of the configured ERP."""
    adapter: Erp = import_string(settings.ERP_ADAPTER)()
    return adapter
