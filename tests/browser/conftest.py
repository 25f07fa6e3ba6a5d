"""A real browser before the real pages; the tests are skipped where Chromium is missing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Page
from pytest_django.live_server_helper import LiveServer

# Playwright keeps an event loop in the tests' own thread until the session ends; the ORM is used
# beside it, never in it.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Chromium as installed on this machine, kept from calling home."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("Chromium is not installed")
    quiet = (
        *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--no-first-run"),
    )
    return {**browser_type_launch_args, "executable_path": found, "args": list(quiet)}


@dataclass
class Complaints:
    """What the browser found wrong: script errors, blocked content, failed loads."""

    expected_statuses: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    def note(self, message: ConsoleMessage) -> None:
        refused = re.search(r"status of (\d{3})", message.text)
        expected = refused is not None and int(refused[1]) in self.expected_statuses
        if message.type in ("error", "warning") and not expected:
            self.texts.append(message.text)


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Asserts after the test that the browser had nothing to complain about."""
    noted = Complaints()
    yield noted
    assert noted.texts == []


@pytest.fixture
def browse(
    browser: Browser, live_server: LiveServer, complaints: Complaints
) -> Iterator[Callable[..., Page]]:
    """Opens a browser of its own for a user; takes what a browser context takes."""
    opened = []

    def open_for(user: User | None, **context: Any) -> Page:
        window = browser.new_context(base_url=live_server.url, **context)
        opened.append(window)
        if user is not None:
            client = Client()
            client.force_login(user)
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            window.add_cookies(
                [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}]
            )
        page = window.new_page()
        page.on("console", complaints.note)
        page.on("pageerror", lambda error: complaints.texts.append(str(error)))
        return page

    yield open_for
    for window in opened:
        window.close()
