"""Webhooks: verify, store once, apply in the same transaction.

The stored event and its effects commit together, so a crash in between leaves neither, and the
provider's next delivery does the work.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from payments.models import ProviderEvent
from payments.news import Standing, apply_news
from payments.providers import provider
from payments.providers.base import BadSignature, NotUnderstood, ProviderNews
from returns.errors import Missing, WrongState
from returns.locking import lock_rows
from returns.permissions import require
from returns.retrying import database_work_is_retried
from returns.timeline import refusals_are_recorded

log = logging.getLogger(__name__)

# A parked event waits for our own commit, or for a restore; after a day it is left to a person.
PARKED_LOOK = timedelta(seconds=30)
PARKED_FOR = timedelta(days=1)
# Events that have done nothing yet.
_WAITS = (Standing.NOT_UNDERSTOOD, Standing.PARKED)


@csrf_exempt
@require_POST
def endpoint(request: HttpRequest, provider: str) -> HttpResponse:
    """POST of one event: 204 once it is stored, 400 for a bad signature.

    Without a configured secret the endpoint does not exist.
    """
    if provider != "stripe" or not settings.STRIPE_WEBHOOK_SECRET:
        raise Http404
    try:
        receive(name=provider, body=request.body, headers=request.headers)
    except BadSignature as error:
        return JsonResponse({"code": "bad_signature", "detail": str(error)}, status=400)
    return HttpResponse(status=204)


def receive(*, name: str, body: bytes, headers: Mapping[str, str]) -> ProviderEvent:
    """Store and apply one delivery. The same event again changes nothing.

    Raises BadSignature. A genuine event of an unknown shape is kept and not acted upon.
    """
    adapter = provider(name)
    try:
        news = adapter.read_event(body, headers)
    except NotUnderstood as error:
        return _keep(name, body, str(error))
    return _store_and_apply(name, news, body)


@database_work_is_retried
def _store_and_apply(name: str, news: ProviderNews, body: bytes) -> ProviderEvent:
    with transaction.atomic():
        event, created = _store(name, news, body)
        if created:
            _apply(event, news)
    return event


def apply_parked() -> int:
    """Apply events that were waiting for their payment; returns how many found it."""
    now = timezone.now()
    due = ProviderEvent.objects.filter(standing=Standing.PARKED, next_look_at__lte=now).values_list(
        "pk", flat=True
    )
    return sum(_apply_again(pk) for pk in due[:500])


def _apply_again(pk: int) -> bool:
    try:
        stored = ProviderEvent.objects.get(pk=pk)
        news = provider(stored.provider).reread_event(stored.body)
        return _apply_waiting(pk, news, (Standing.PARKED,)).standing == Standing.APPLIED
    except OperationalError as error:
        # The database's trouble and not the event's: it stays due.
        log.warning("event %s has to wait: %s", pk, error)
        return False
    except Exception as error:
        # One event that cannot be applied must not stop the others; a person looks at it.
        log.exception("event %s cannot be applied", pk)
        ProviderEvent.objects.filter(pk=pk).update(
            standing=Standing.NOT_UNDERSTOOD, note=repr(error)[:500], next_look_at=None
        )
        return False


@refusals_are_recorded("replay_event")
def replay(*, event_id: int, by: User) -> ProviderEvent:
    """Read a stored event again and apply it, where it had not been understood or is parked.

    What has been applied or ignored stays as it is. Raises NotAllowed (role), Missing, and
    WrongState while the event is still not understood.
    """
    require(by, "replay_event")
    stored = ProviderEvent.objects.filter(pk=event_id).first()
    if stored is None:
        raise Missing("There is no such event.", code="unknown_event")
    if stored.standing not in _WAITS:
        return stored
    return _apply_waiting(stored.pk, _read_again(stored), _WAITS, f" (replayed by {by})")


def _read_again(stored: ProviderEvent) -> ProviderNews:
    try:
        news = provider(stored.provider).reread_event(stored.body)
    except NotUnderstood as error:
        raise _still_not_understood(stored, str(error)) from None
    if news.unread:
        raise _still_not_understood(stored, news.unread)
    return news


def _still_not_understood(stored: ProviderEvent, why: str) -> WrongState:
    return WrongState(f"It is still not understood: {why}", standing=stored.standing)


@database_work_is_retried
def _apply_waiting(
    pk: int, news: ProviderNews, waits: tuple[Standing, ...], remark: str = ""
) -> ProviderEvent:
    """Apply a stored event if it still waits. Its row is locked: two may be at it."""
    with transaction.atomic():
        (event,) = lock_rows(ProviderEvent.objects.filter(pk=pk))
        if event.standing in waits:
            _apply(event, news, remark)
    return event


def _store(name: str, news: ProviderNews, body: bytes) -> tuple[ProviderEvent, bool]:
    """INSERT, or read the row that a delivery at the same moment has inserted."""
    return ProviderEvent.objects.get_or_create(
        provider=name,
        event_id=news.event_id,
        defaults={
            "kind": news.kind,
            "occurred_at": news.occurred_at,
            "body": body.decode(),
            "live_mode": news.live_mode,
            "standing": Standing.PARKED,
            "received_at": timezone.now(),
            "next_look_at": timezone.now(),
        },
    )


def _apply(event: ProviderEvent, news: ProviderNews, remark: str = "") -> None:
    if news.live_mode != settings.STRIPE_LIVE_MODE:
        standing, note = Standing.IGNORED, "an event of the other mode (test or live)"
    else:
        standing, note = apply_news(event.provider, news)
    now = timezone.now()
    if standing == Standing.PARKED and now - event.received_at > PARKED_FOR:
        standing, note = Standing.NOT_UNDERSTOOD, "no payment of ours appeared for it"
    event.standing, event.note = standing, note + remark
    event.applied_at = now if standing == Standing.APPLIED else None
    event.next_look_at = now + PARKED_LOOK if standing == Standing.PARKED else None
    event.save(update_fields=["standing", "note", "applied_at", "next_look_at"])


def _keep(name: str, body: bytes, why: str) -> ProviderEvent:
    """A genuine event of an unknown shape is kept whole, once."""
    now = timezone.now()
    event, _ = ProviderEvent.objects.get_or_create(
        provider=name,
        event_id=f"sha256:{hashlib.sha256(body).hexdigest()}",
        defaults={
            "kind": "unknown",
            "occurred_at": now,
            "body": body.decode(errors="replace").replace("\0", "\ufffd"),
            "live_mode": False,
            "standing": Standing.NOT_UNDERSTOOD,
            "note": why,
            "received_at": now,
        },
    )
    return event
