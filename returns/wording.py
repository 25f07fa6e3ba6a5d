"""The words for what happened and for who may do what. Nothing here decides anything."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from returns.permissions import MAY

Words = str | Promise

# Never "refunded" before the money is confirmed.
VERBS: dict[str, Words] = {
    "take_in": _("taken in"),
    "join": _("joined by another request for the same goods"),
    "inspect": _("inspected"),
    "approve": _("approved"),
    "reject": _("rejected"),
    "withdraw": _("withdrawn by the customer"),
    "reserve": _("money reserved"),
    "no_answer": _("no answer from the provider; being checked"),
    "at_the_provider": _("the provider has it, not final yet"),
    "paid": _("paid"),
    "declined": _("payment did not work, still owed"),
    "set_aside": _("set aside: a person must look"),
    "ask_again": _("provider is being asked again"),
    "came_back": _("the money came back, still owed"),
    "hand_over_started": _("hand-over started"),
    "hand_over_abandoned": _("hand-over given up"),
    "settle": _("all of it paid"),
    "release": _("money released; it may be approved again"),
    "reopen": _("opened again"),
    "post": _("posted in the books"),
    "post_again": _("posting is being tried again"),
    "erp_refused": _("the books refused it; a person must look"),
}

MONEY_VERBS = frozenset(VERBS) - {"take_in", "join", "inspect", "reject", "withdraw"}
"""What the timeline keeps when it is asked for the money only."""

TROUBLE_VERBS = frozenset({"no_answer", "declined", "set_aside", "erp_refused"})
"""Where the other side's own words help a person to understand what happened."""

ATTENTION: dict[str, Words] = {
    "paid_after_refusal": _("The provider says paid after the payment had been given up."),
    "contradicting_events": _("The provider said paid and failed in the same second."),
    "key_conflict": _("The provider knows our key from another request."),
    "window_closed": _("The provider may have forgotten our key, so nothing is sent again."),
    "kills_its_worker": _("Three workers died over this payment."),
    "amount_differs": _("The provider paid another amount than we asked for."),
    "currency_differs": _("The provider paid in another currency than we asked for."),
    "more_than_one_payment": _("The provider knows more than one refund for this."),
    "more_than_one_credit": _("The books have more than one entry for this."),
    "refused": _("The books refuse this entry."),
    "reference_not_ours": _("The provider's reference belongs to another payment of ours."),
    "refunded_elsewhere": _("The provider says this has been refunded already, and not by us."),
    "charged_back": _("The customer's bank has taken this payment back."),
    "vanished_at_the_provider": _("The provider had this and no longer shows it."),
    "account_refused": _("The provider refuses our credentials."),
    "returned_after_success": _("The money came back after it had been paid."),
}

ROLES: dict[str, Words] = {
    "desk": _("desk staff"),
    "manager": _("managers"),
    "finance": _("finance"),
    "admin": _("administrators"),
    "integration": _("other systems"),
}


def of_verb(verb: str) -> str:
    """What happened, as the beginning of a line."""
    return capfirst(str(VERBS.get(verb, verb.replace("_", " "))))


def of_attention(word: str) -> str:
    """Why a person must look, as a sentence."""
    return str(ATTENTION.get(word, capfirst(word.replace("_", " ")) + ".")) if word else ""


def of_roles(action: str) -> str:
    """Who may do this: "managers, finance"."""
    people = [role for role in ROLES if role in MAY[action] and role != "integration"]
    words = [str(ROLES[role]) for role in people]
    return gettext(" and ").join(filter(None, [", ".join(words[:-1]), words[-1]]))


def only_for(action: str) -> str:
    """Why a button is disabled for somebody without the role."""
    return gettext("Only %(roles)s can do this.") % {"roles": of_roles(action)}


def details_of(facts: dict[str, Any]) -> dict[str, str]:
    """The references in the facts of an event, for copying."""
    names = {
        "provider_refund": gettext("provider's reference"),
        "wire_key": gettext("payment key"),
        "erp_entry": gettext("entry in the books"),
    }
    return {label: str(facts[name]) for name, label in names.items() if facts.get(name)}
