"""Who the product talks to: payment provider and ERP answer, and the clocks agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from uuid import UUID

import httpx
from django.conf import settings

from reconciliation.erp import erp
from reconciliation.erp.base import ErpRefused, ErpUnknown
from reconciliation.management.examinations.finding import Finding

_ANSWER_SECONDS = 10
# A date in a header has whole seconds; a signed event is refused when it is 300 s old.
_MOST_SKEW_SECONDS = 5
# No operation has this key.
_NOBODY = UUID(int=0)


def examine() -> Iterator[Finding]:
    """Asks both, reading only."""
    yield from _provider()
    yield _erp()


def _provider() -> Iterator[Finding]:
    url = settings.STRIPE_API_BASE
    try:
        answer = httpx.get(
            f"{url}/v1/refunds",
            params={"limit": 1},
            headers={"Authorization": f"Bearer {settings.STRIPE_API_KEY}"},
            timeout=_ANSWER_SECONDS,
        )
    except httpx.HTTPError as error:
        advice = "Check STRIPE_API_BASE, name service, firewall and proxy."
        yield Finding("payment provider", False, f"{url}: {error!r}", advice)
        return
    refused = answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    advice = "Check STRIPE_API_KEY." if refused else "See the provider's status page."
    found = f"{url} answers {answer.status_code}"
    yield Finding("payment provider", answer.is_success, found, advice)
    if "Date" in answer.headers:
        yield _clock(parsedate_to_datetime(answer.headers["Date"]))


def _clock(theirs: datetime) -> Finding:
    skew_seconds = abs((theirs - datetime.now(UTC)).total_seconds())
    return Finding(
        "clock against the provider",
        skew_seconds <= _MOST_SKEW_SECONDS,
        f"{skew_seconds:.0f} s apart",
        "Let this machine follow a time server (NTP); too far apart, signed events are refused.",
    )


def _erp() -> Finding:
    url = settings.ERP_URL
    try:
        erp().find(_NOBODY)
    except (ErpUnknown, ErpRefused) as error:
        advice = "Check ERP_URL and that the ERP runs; postings wait and lose nothing."
        return Finding("ERP", False, f"{url}: {error}", advice)
    return Finding("ERP", True, f"{url} answers", "")
