"""Where a story happens: both sandboxes, the database, and one clock that all of them follow."""

from __future__ import annotations

from collections.abc import Callable

from django.apps import apps
from django.db import connection, transaction
from django_q.models import OrmQ

from payments import webhooks
from payments.models import ProviderEvent
from tests.events import signed
from tests.sandboxes import Json, SandboxErp, SandboxProvider
from tests.stateful.witness import LONGEST_UNDER_WAY_SECONDS
from tests.workers import let_pass

_APPS = ("returns", "payments", "reconciliation")


class World:
    """Empty at the beginning of every story. Time is whole seconds since then."""

    def __init__(self, provider: SandboxProvider, erp: SandboxErp) -> None:
        self.provider = provider
        self.erp = erp
        self.now = 0
        self._arrived_at = 0
        self._waiting: list[Callable[[int], None]] = []
        self.delivered: set[str] = set()

    def begin(self) -> None:
        """Nothing has happened yet, anywhere."""
        empty_tables()
        self.provider.reset()
        self.erp.reset()
        self.now = self._arrived_at = 0
        self._waiting.clear()
        self.delivered.clear()

    def when_time_passes(self, call: Callable[[int], None]) -> None:
        """Somebody whose own notes of times must move as well."""
        self._waiting.append(call)

    def pass_time(self, seconds: int) -> None:
        """For everybody alike. No request is under way for longer than providers promise."""
        if self.now + seconds - self._arrived_at >= LONGEST_UNDER_WAY_SECONDS:
            self.let_arrive()
        self.now += seconds
        let_pass(seconds)
        for sandbox in (self.provider, self.erp):
            sandbox.advance_clock(seconds)
        for call in self._waiting:
            call(seconds)

    def let_arrive(self) -> None:
        """What is under way arrives."""
        self._arrived_at = self.now
        for sandbox in (self.provider, self.erp):
            sandbox.let_arrive()

    def clear_up(self) -> None:
        """No faults any more, and nothing under way; a new second begins."""
        for sandbox in (self.provider, self.erp):
            sandbox.clear_faults()
        self.let_arrive()
        self.pass_time(1)

    def keys_under_way(self) -> set[str]:
        """The keys of payments whose request may still arrive."""
        return {str(request["idempotency_key"]) for request in self.provider.under_way()}

    def events(self) -> list[Json]:
        """What the provider has to tell, oldest first."""
        return [delivery["event"] for delivery in self.provider.events()]

    def unheard(self) -> set[str]:
        """Refunds about which not everything has been told yet."""
        return {
            event["data"]["object"]["id"]
            for event in self.events()
            if event["id"] not in self.delivered
        }

    def deliver(self, event: Json) -> ProviderEvent:
        """One delivery, dated on our clock: the provider's has run ahead by what has passed."""
        body, headers = signed(event | {"created": event["created"] - self.now})
        stored = webhooks.receive(name="stripe", body=body.encode(), headers=headers)
        self.delivered.add(event["id"])
        return stored


def empty_tables() -> None:
    """Take every row of the product away; several times as quick as TRUNCATE.

    The product's own triggers refuse that, so they are lifted for this one transaction.
    """
    models = [model for app in _APPS for model in apps.get_app_config(app).get_models()]
    tables = [model._meta.db_table for model in [*models, OrmQ]]
    statements = [
        *(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in tables),
        *(f"DELETE FROM {table}" for table in tables),  # noqa: S608 - names from the models
        "SET CONSTRAINTS ALL IMMEDIATE",
        *(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in tables),
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(";".join(statements))
