"""Is it alive, is it fit to work, and how much of what is there: for probes and for Prometheus."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from payments import heartbeat
from payments.models import PaymentTask
from payments.recovery import due_payments
from reconciliation.dispatch import due_postings
from reconciliation.models import ErpPosting, Mismatch
from reconciliation.sweeping import LOOPS
from returns.api_access import person
from returns.models import RefundOperation, RefusedAttempt
from returns.permissions import may

# The sweep beats about once a second; a pass over many slow answers takes longer.
WORKER_SILENT_SECONDS = 60
# What is due is looked at within seconds; after this long nobody is looking.
DUE_TOO_LONG_SECONDS = 5 * 60


@never_cache
@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """200 as long as this process answers; asks nobody else."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when requests and payments can be worked on, 503 when not, and which part is missing."""
    try:
        checks = _checks()
    except OperationalError:
        checks = {"database": {"ok": False}}
    ready = all(check["ok"] for check in checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": checks}
    return JsonResponse(body, status=200 if ready else 503)


def _checks() -> dict[str, dict[str, Any]]:
    applied = MigrationRecorder(connection).applied_migrations()
    unapplied = len(_migrations_on_disk() - set(applied))
    checks: dict[str, dict[str, Any]] = {
        "database": {"ok": True},
        "migrations": {"ok": unapplied == 0, "missing": unapplied},
    }
    if unapplied:
        # Its tables may not even exist.
        return checks
    silent_seconds = heartbeat.longest_silence_seconds(LOOPS)
    due_seconds = oldest_due_seconds()
    checks["worker"] = {
        "ok": silent_seconds is not None and silent_seconds < WORKER_SILENT_SECONDS,
        "last_beat_seconds": silent_seconds if silent_seconds is None else round(silent_seconds, 1),
    }
    checks["due"] = {
        "ok": due_seconds < DUE_TOO_LONG_SECONDS,
        "oldest_seconds": round(due_seconds, 1),
    }
    return checks


@functools.cache
def _migrations_on_disk() -> frozenset[tuple[str, str]]:
    """Read once: the files of a running process do not change."""
    return frozenset(MigrationLoader(None).disk_migrations)


def oldest_due_seconds() -> float:
    """How long the longest-waiting payment or posting has been due; 0 when nothing is."""
    looks = [
        *PaymentTask.objects.filter(pk__in=due_payments()[:1]).values_list("next_look_at"),
        *ErpPosting.objects.filter(pk__in=due_postings()[:1]).values_list("next_look_at"),
    ]
    now = timezone.now()
    return max(((now - look).total_seconds() for (look,) in looks if look), default=0.0)


class MayScrape(BasePermission):
    """Whoever may see payments, and monitoring on this very machine."""

    # Whatever comes through a proxy seems to come from this machine.
    FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_FORWARDED")
    LOOPBACK = ("127.0.0.1", "::1")

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.user.is_authenticated:
            return may(person(request), "view_payments")
        is_proxied = any(name in request.META for name in self.FORWARDED)
        return request.META.get("REMOTE_ADDR") in self.LOOPBACK and not is_proxied


@extend_schema(exclude=True)
class MetricsView(APIView):
    """Prometheus' text format, version 0.0.4."""

    permission_classes = (MayScrape,)

    def get(self, request: Request) -> HttpResponse:
        text = "".join(f"{line}\n" for line in _metrics())
        return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def _metrics() -> Iterator[str]:
    for name, meaning, label, rows in (
        ("operations", "Returns by state.", "state", RefundOperation.objects.all()),
        ("payments", "Payments by state.", "state", PaymentTask.objects.all()),
        ("postings", "ERP postings by state.", "state", ErpPosting.objects.all()),
        (
            "open_mismatches",
            "Mismatches that a person must close, by kind.",
            "kind",
            Mismatch.objects.filter(status=Mismatch.Status.OPEN),
        ),
    ):
        yield from _series(name, "gauge", meaning, label, _count(rows, label))
    yield from _series(
        "refused_attempts_total",
        "counter",
        "Refused attempts by code.",
        "code",
        _count(RefusedAttempt.objects.all(), "code"),
    )
    yield from _series(
        "worker_silence_seconds",
        "gauge",
        "Seconds since a process was last alive.",
        "process",
        {name: f"{age:.1f}" for name, age in heartbeat.ages().items()},
    )
    yield "# HELP refund_desk_oldest_due_seconds How long the oldest due look has been waiting."
    yield "# TYPE refund_desk_oldest_due_seconds gauge"
    yield f"refund_desk_oldest_due_seconds {oldest_due_seconds():.1f}"


def _count(rows: QuerySet[Any], label: str) -> dict[str, int]:
    return dict(rows.order_by(label).values_list(label).annotate(number=Count("pk")))


def _series(
    name: str, kind: str, meaning: str, label: str, values: Mapping[str, object]
) -> Iterator[str]:
    """One metric; its label values are our own names, which need no escaping."""
    yield f"# HELP refund_desk_{name} {meaning}"
    yield f"# TYPE refund_desk_{name} {kind}"
    for value, figure in values.items():
        yield f'refund_desk_{name}{{{label}="{value}"}} {figure}'
