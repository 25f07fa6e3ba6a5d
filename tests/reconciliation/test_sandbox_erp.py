"""The sandbox ERP, as a real process, spoken to over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from payments.sandbox.process import PROJECT_ROOT, SandboxProcess

DAY_SECONDS = 24 * 60 * 60


class Erp:
    """The process and its two interfaces."""

    def __init__(self, process: SandboxProcess) -> None:
        self.process = process
        self.http = httpx.Client(base_url=process.url)

    def create(self, reference: str = "op-1", **other: object) -> httpx.Response:
        entry: dict[str, object] = {
            "reference": reference,
            "amount": "48.00",
            "currency": "USD",
            "refunded_on": "2026-03-31",
            "order": "W2611340",
            "description": "R-2841",
        }
        return self.http.post("/entries", json=entry | other)

    def draft(self, reference: str = "op-1") -> int:
        answer = self.create(reference)
        assert answer.status_code == 201
        return int(answer.json()["id"])

    def post(self, entry_id: int) -> httpx.Response:
        return self.http.post(f"/entries/{entry_id}/post")

    def control(self, path: str, document: object) -> None:
        self.http.post(f"/_control/{path}", json=document).raise_for_status()

    def entries(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.http.get("/_control/entries").json()
        return listed

    def found(self, **query: str | int) -> list[int]:
        return [entry["id"] for entry in self.http.get("/entries", params=query).json()["data"]]


@pytest.fixture
def erp(tmp_path: Path) -> Iterator[Erp]:
    with SandboxProcess("reconciliation.sandbox", tmp_path / "erp") as process:
        yield Erp(process)


@pytest.fixture
def forgiving_erp(tmp_path: Path) -> Iterator[Erp]:
    options = ("--unique-reference", "off")
    with SandboxProcess("reconciliation.sandbox", tmp_path / "erp", *options) as process:
        yield Erp(process)


def wait_until(fact: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_new_entry_is_a_draft(erp: Erp) -> None:
    answer = erp.create()
    assert answer.status_code == 201
    entry = answer.json()
    assert entry.pop("created_at").endswith("Z")
    assert entry == {
        "id": 1,
        "reference": "op-1",
        "amount": "48.00",
        "currency": "USD",
        "refunded_on": "2026-03-31",
        "order": "W2611340",
        "description": "R-2841",
        "state": "draft",
        "posted_at": None,
        "date": None,
    }
    assert erp.http.get("/entries/1").json()["state"] == "draft"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("amount", 48),
        ("amount", "-1.00"),
        ("amount", "0.00"),
        ("amount", "1.001"),
        ("amount", "1e2"),
        ("amount", ""),
        ("currency", "usd"),
        ("refunded_on", "31.03.2026"),
        ("reference", " "),
        ("colour", "red"),
    ],
)
def test_what_is_not_fully_understood_is_refused(erp: Erp, field: str, value: object) -> None:
    answer = erp.create(**({"reference": "op-1"} | {field: value}))  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["field"]) == ("invalid", field)
    assert erp.entries() == []


def test_amounts_have_their_currencys_decimals(erp: Erp) -> None:
    assert erp.create("jpy", amount="5800", currency="JPY").json()["amount"] == "5800"
    assert erp.create("kwd", amount="18.6", currency="KWD").json()["amount"] == "18.600"
    assert erp.create("half", amount="10.5", currency="JPY").status_code == 400


def test_with_the_switch_on_a_second_reference_is_refused(erp: Erp) -> None:
    first = erp.draft()
    again = erp.create()
    assert again.status_code == 400
    assert (again.json()["code"], again.json()["entry"]) == ("duplicate_reference", first)
    erp.post(first)
    assert erp.create().status_code == 400
    assert len(erp.entries()) == 1


def test_with_the_switch_off_duplicates_appear(forgiving_erp: Erp) -> None:
    assert [forgiving_erp.draft(), forgiving_erp.draft()] == [1, 2]
    forgiving_erp.control("settings", {"unique_reference": True})
    assert forgiving_erp.create().status_code == 400


def test_concurrent_creates_of_one_reference_make_one_entry(erp: Erp) -> None:
    with ThreadPoolExecutor(16) as senders:
        statuses = list(senders.map(lambda _: erp.create().status_code, range(32)))
    assert sorted(set(statuses)) == [201, 400]
    assert statuses.count(201) == 1


def test_posting_takes_todays_date_by_the_erps_clock(erp: Erp) -> None:
    entry_id = erp.draft()
    before = time.time()
    erp.control("clock", {"advance_seconds": 3 * DAY_SECONDS})
    posted = erp.post(entry_id).json()
    days = {
        time.strftime("%Y-%m-%d", time.gmtime(moment + 3 * DAY_SECONDS))
        for moment in (before, time.time())
    }
    assert posted["state"] == "posted"
    assert posted["date"] in days
    assert posted["refunded_on"] == "2026-03-31"


def test_posting_again_and_deleting_posted_entries_is_refused(erp: Erp) -> None:
    entry_id = erp.draft()
    assert erp.post(entry_id).status_code == 200
    assert (erp.post(entry_id).status_code, erp.post(entry_id).json()["code"]) == (
        400,
        "already_posted",
    )
    refused = erp.http.delete(f"/entries/{entry_id}")
    assert (refused.status_code, refused.json()["code"]) == (400, "posted")
    assert erp.post(99).status_code == 404


def test_a_deleted_draft_is_gone_and_frees_its_reference(erp: Erp) -> None:
    first = erp.draft()
    deleted = erp.http.delete(f"/entries/{first}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert erp.http.get(f"/entries/{first}").status_code == 404
    assert erp.draft() == first + 1


def test_lists_are_filtered_and_paged(erp: Erp) -> None:
    ids = [erp.draft(f"op-{n}") for n in range(5)]
    erp.control("clock", {"advance_seconds": 10 * DAY_SECONDS})
    today = erp.post(ids[1]).json()["date"]

    assert erp.found(reference="op-3") == [ids[3]]
    assert erp.found(reference="op-9") == []
    assert erp.found(state="posted") == [ids[1]]
    assert erp.found(**{"from": today, "to": today}) == [ids[1]]
    assert erp.found(limit=2) == ids[:2]
    assert erp.found(limit=2, after=ids[1]) == ids[2:4]
    assert erp.http.get("/entries", params={"limit": 2}).json()["has_more"] is True
    assert erp.http.get("/entries", params={"color": "red"}).status_code == 400


def test_an_answer_lost_after_the_create_leaves_the_entry(erp: Erp) -> None:
    erp.control("faults", {"mode": "drop_after"})
    with pytest.raises(httpx.RemoteProtocolError):
        erp.create()
    assert len(erp.found(reference="op-1")) == 1


def test_a_late_create_appears_after_the_look_up(forgiving_erp: Erp) -> None:
    forgiving_erp.control("faults", {"mode": "late", "seconds": 0.5})
    with pytest.raises(httpx.RemoteProtocolError):
        forgiving_erp.create()
    assert forgiving_erp.found(reference="op-1") == []
    forgiving_erp.draft()
    wait_until(lambda: len(forgiving_erp.entries()) == 2)


def test_a_late_create_is_refused_by_the_unique_reference(erp: Erp) -> None:
    erp.control("faults", {"mode": "late", "seconds": 0.2})
    with pytest.raises(httpx.RemoteProtocolError):
        erp.create()
    erp.draft()
    wait_until(lambda: len(erp.http.get("/_control/requests").json()) == 3)
    late = erp.http.get("/_control/requests").json()[2]
    assert (late["path"], late["status"]) == ("/entries", 400)
    assert len(erp.entries()) == 1


@pytest.mark.parametrize(
    ("mode", "status", "applied"),
    [
        ("error_before", 500, 0),
        ("error_after", 500, 1),
        ("garbage_after", 200, 1),
        ("rate_limit", 429, 0),
        ("refuse", 400, 0),
        ("closed_period", 400, 0),
    ],
)
def test_faults_of_a_create(erp: Erp, mode: str, status: int, applied: int) -> None:
    erp.control("faults", {"mode": mode})
    answer = erp.create()
    assert answer.status_code == status
    assert len(erp.entries()) == applied
    if status == 400:
        assert answer.json()["code"] == "refused"


def test_a_fault_can_hit_the_posting(erp: Erp) -> None:
    erp.control("faults", {"mode": "closed_period", "match": "/post"})
    entry_id = erp.draft()
    assert erp.post(entry_id).json()["code"] == "refused"
    assert erp.post(entry_id).status_code == 200


def test_kill_9_and_restart_keeps_the_entries(erp: Erp) -> None:
    kept, removed, posted = (erp.draft(f"op-{n}") for n in range(3))
    erp.http.delete(f"/entries/{removed}")
    erp.post(posted)
    before = erp.entries()
    erp.process.kill()
    erp.process.start()
    assert erp.entries() == before
    assert [entry["id"] for entry in before] == [kept, posted]
    assert erp.draft("op-9") == posted + 1
    assert erp.create("op-0").json()["code"] == "duplicate_reference"


def test_reset_empties_the_book(erp: Erp) -> None:
    erp.draft()
    erp.control("settings", {"unique_reference": False})
    erp.control("reset", {})
    assert erp.entries() == []
    assert erp.http.get("/_control/settings").json() == {"unique_reference": True}
    assert erp.draft() == 1


@pytest.mark.parametrize(
    ("options", "environment", "reason"),
    [
        ((), "production", "production"),
        (("--host", "0.0.0.0"), "test", "loopback"),  # noqa: S104
    ],
)
def test_it_refuses_an_unsafe_start(
    tmp_path: Path, options: tuple[str, ...], environment: str, reason: str
) -> None:
    command = (sys.executable, "-m", "reconciliation.sandbox")
    ended = subprocess.run(
        [*command, "--port", "0", "--data", str(tmp_path), *options],
        cwd=PROJECT_ROOT,
        env=os.environ | {"DJANGO_ENV": environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert reason in ended.stderr
