"""What probes, Prometheus and readers of the API's document see."""

from __future__ import annotations

import re
from datetime import timedelta
from unittest import mock

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.authtoken.models import Token

from config import health
from payments.heartbeat import beat
from payments.models import Heartbeat, PaymentTask
from reconciliation.sweeping import LOOPS
from tests import factories
from tests.factories import OrderFactory

pytestmark = pytest.mark.django_db


def everything_beats() -> None:
    for loop in LOOPS:
        beat(loop)


class TestHealthz:
    def test_it_answers_without_asking_the_database(
        self, client: Client, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(0):
            answer = client.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    def test_it_is_read_only(self, client: Client) -> None:
        assert client.post("/healthz").status_code == 405


class TestReadyz:
    def test_it_is_not_ready_before_a_worker_has_beaten(self, client: Client) -> None:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"]["worker"] == {"ok": False, "last_beat_seconds": None}

    def test_it_is_ready_with_a_worker_and_nothing_overdue(self, client: Client) -> None:
        everything_beats()
        factories.reserved()
        answer = client.get("/readyz")
        assert answer.status_code == 200
        assert {name: check["ok"] for name, check in answer.json()["checks"].items()} == {
            "database": True,
            "migrations": True,
            "worker": True,
            "due": True,
        }

    @pytest.mark.parametrize("silent", LOOPS)
    def test_a_silent_loop_is_told_though_the_other_lives(
        self, client: Client, silent: str
    ) -> None:
        everything_beats()
        Heartbeat.objects.filter(name=silent).update(at=timezone.now() - timedelta(seconds=61))
        checks = client.get("/readyz").json()["checks"]
        assert (checks["worker"]["ok"], checks["due"]["ok"]) == (False, True)

    @pytest.mark.parametrize("alive", LOOPS)
    def test_one_loop_alone_is_not_enough(self, client: Client, alive: str) -> None:
        beat(alive)
        assert client.get("/readyz").status_code == 503

    def test_work_that_nobody_looks_at_is_told(self, client: Client) -> None:
        everything_beats()
        factories.reserved()
        PaymentTask.objects.update(next_look_at=timezone.now() - timedelta(minutes=6))
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"]["due"]["oldest_seconds"] >= 360

    def test_money_that_a_person_hands_over_is_not_overdue_work(self, client: Client) -> None:
        everything_beats()
        factories.reserved(OrderFactory.create(tenders=[factories.cash(10_000)]))
        PaymentTask.objects.update(next_look_at=timezone.now() - timedelta(days=1))
        assert client.get("/readyz").status_code == 200

    def test_a_missing_migration_is_told(self, client: Client) -> None:
        everything_beats()
        ahead = health._migrations_on_disk() | {("returns", "9999_of_tomorrow")}
        with mock.patch.object(health, "_migrations_on_disk", return_value=ahead):
            answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"]["migrations"] == {"ok": False, "missing": 1}

    def test_a_database_that_does_not_answer_is_told(self, client: Client) -> None:
        with mock.patch.object(health, "_checks", side_effect=OperationalError):
            answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"status": "not ready", "checks": {"database": {"ok": False}}}


class TestMetrics:
    def test_this_machine_reads_figures_in_prometheus_text(self, client: Client) -> None:
        everything_beats()
        factories.reserved()
        factories.received()
        answer = client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.content.decode().splitlines()
        assert 'refund_desk_operations{state="reserved"} 1' in lines
        assert 'refund_desk_operations{state="received"} 1' in lines
        assert 'refund_desk_payments{state="pending"} 1' in lines
        assert "refund_desk_oldest_due_seconds 0.0" in lines
        form = re.compile(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[\w-]+"\})? [0-9.]+')
        assert [line for line in lines if not form.fullmatch(line)] == []

    def test_a_stranger_and_a_proxied_stranger_are_refused(self, client: Client) -> None:
        assert client.get("/metrics", REMOTE_ADDR="192.0.2.7").status_code == 401
        assert client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.7"}).status_code == 401

    @pytest.mark.parametrize(("role", "status"), [("finance", 200), ("desk", 403)])
    def test_a_token_needs_the_right_to_see_payments(
        self, client: Client, role: str, status: int
    ) -> None:
        token = Token.objects.create(user=factories.person("scraper", role))
        answer = client.get(
            "/metrics",
            REMOTE_ADDR="192.0.2.7",
            headers={"Authorization": f"Token {token.key}"},
        )
        assert answer.status_code == status

    def test_the_cost_does_not_grow_with_what_is_counted(
        self, client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        for _ in range(5):
            factories.reserved()
        with django_assert_max_num_queries(10):
            client.get("/metrics")


class TestOurOwnFailures:
    @pytest.mark.parametrize(("path", "kind"), [("/api/v1/returns/", "json"), ("/healthz", "html")])
    def test_they_are_told_in_the_language_of_who_asks(
        self, client: Client, path: str, kind: str
    ) -> None:
        client.raise_request_exception = False
        with mock.patch("django.core.handlers.base.BaseHandler._get_response", side_effect=OSError):
            answer = client.get(path)
        assert answer.status_code == 500
        assert kind in answer.headers["Content-Type"]


class TestAddressesThatLeadNowhere:
    @pytest.mark.parametrize("path", ["/api/v1/webhooks/nobody/", "/api/v2/returns/"])
    def test_programs_are_told_in_json(self, client: Client, path: str) -> None:
        answer = client.post(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert path in answer.json()["detail"]

    def test_people_are_told_on_a_page(self, client: Client) -> None:
        answer = client.get("/nowhere/")
        assert answer.status_code == 404
        assert "Nothing is here" in answer.content.decode()


class TestApiDocument:
    def test_the_document_names_every_endpoint_of_the_contract(self, client: Client) -> None:
        paths = client.get("/api/v1/schema/?format=json").json()["paths"]
        assert {(path, method) for path, methods in paths.items() for method in methods} == {
            ("/api/v1/orders/{number}/", "get"),
            ("/api/v1/orders/{number}/", "put"),
            ("/api/v1/returns/", "get"),
            ("/api/v1/returns/", "post"),
            ("/api/v1/returns/{key}/", "get"),
            ("/api/v1/returns/{key}/inspect/", "post"),
            ("/api/v1/returns/{key}/approve/", "post"),
            ("/api/v1/returns/{key}/reject/", "post"),
            ("/api/v1/returns/{key}/withdraw/", "post"),
            ("/api/v1/returns/{key}/post-again/", "post"),
            ("/api/v1/approvals/batches/", "post"),
            ("/api/v1/approvals/batches/{token}/", "get"),
            ("/api/v1/provider-events/", "get"),
            ("/api/v1/provider-events/{id}/replay/", "post"),
            ("/api/v1/payments/", "get"),
            ("/api/v1/payments/{id}/", "get"),
            ("/api/v1/payments/{id}/query/", "post"),
            ("/api/v1/payments/{id}/declare-unpaid/", "post"),
            ("/api/v1/payments/{id}/hand-over/", "post"),
            ("/api/v1/mismatches/", "get"),
            ("/api/v1/mismatches/{id}/resolve/", "post"),
            ("/api/v1/mismatches/{id}/confirm/", "post"),
            ("/api/v1/mismatches/{id}/turn-down/", "post"),
        }

    def test_every_endpoint_says_how_it_refuses(self, client: Client) -> None:
        paths = client.get("/api/v1/schema/?format=json").json()["paths"]
        for path, methods in paths.items():
            for method, operation in methods.items():
                assert {"401", "403"} <= set(operation["responses"]), f"{method} {path}"

    def test_the_page_runs_nothing_inline_and_loads_nothing_from_elsewhere(
        self, client: Client
    ) -> None:
        answer = client.get("/api/v1/docs/")
        page = answer.content.decode()
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        inline = r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:"
        assert re.findall(inline, page) == []
        loads = re.findall(r'(?:<link[^>]+href|\bsrc)="([^"]*)"', page)
        assert loads
        assert all(address.startswith("/static/") for address in loads)

    def test_every_link_within_the_page_leads_somewhere(self, client: Client) -> None:
        page = client.get("/api/v1/docs/").content.decode()
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert set(re.findall(r'href="#([^"]+)"', page)) - set(ids) == set()
        assert len(ids) == len(set(ids))
