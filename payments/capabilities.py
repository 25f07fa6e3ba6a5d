"""What each configured provider declares about itself.

Kept apart from the adapters, so that a verb can obey the declaration without being able to call.
"""

from __future__ import annotations

from django.conf import settings

from payments.outcomes import Capabilities

DAY_SECONDS = 24 * 60 * 60

BY_PROVIDER: dict[str, Capabilities] = {
    # Stripe's public documents: keys are kept at least 24 hours; refunds are listed by payment;
    # a succeeded refund can still fail when the customer's bank returns it.
    "stripe": Capabilities(
        key_memory_seconds=DAY_SECONDS,
        lookup_lag_seconds=1,
        max_under_way_seconds=settings.STRIPE_MAX_UNDER_WAY_SECONDS,
        may_fail_after_success=True,
    ),
    # Cash, gift card, bank transfer: a person hands the money over and says so.
    "manual": Capabilities(key_memory_seconds=None, lookup_lag_seconds=0, by_person=True),
}


def capabilities_of(provider: str) -> Capabilities:
    """The declaration of a provider. Raises KeyError for one that is not configured."""
    return BY_PROVIDER[provider]
