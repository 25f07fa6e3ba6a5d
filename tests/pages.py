"""Browsing the pages without a browser: sign in, read what stands there, send the forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

# Sign-in and session are read on every request; a page must not need more than this on top.
MOST_QUERIES = 30


def signed_in(user: User) -> Client:
    """A client with this user's session."""
    client = Client()
    client.force_login(user)
    return client


class _Forms(HTMLParser):
    """Collects the forms of a page as action -> fields, hidden ones and prefilled ones alike."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, Any]]] = []
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.forms.append((given.get("action") or "", {}))
        if not self.forms or not given.get("name"):
            return
        fields = self.forms[-1][1]
        if tag == "textarea":
            self._area = str(given["name"])
            fields[self._area] = ""
        elif tag == "input" and given.get("type") not in ("checkbox", "radio"):
            fields[str(given["name"])] = given.get("value") or ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.forms[-1][1][self._area] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            if self._area:
                fields = self.forms[-1][1]
                fields[self._area] = fields[self._area].strip()
            self._area = None


def form_on(page: Any, action: str) -> dict[str, Any]:
    """The fields of the page's last form with this action, as the browser would send them."""
    reader = _Forms()
    reader.feed(page.content.decode())
    found = [fields for where, fields in reader.forms if where == action]
    assert found, f"no form for {action} on the page"
    return {name: value for name, value in found[-1].items() if name != "csrfmiddlewaretoken"}


def text_of(page: Any) -> str:
    """What a person reads, in one line."""
    body = re.sub(r"<(script|style|head)\b.*?</\1>", " ", page.content.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def queries_of(client: Client, url: str) -> int:
    """How many statements opening a page takes."""
    client.get(url)
    with CaptureQueriesContext(connection) as captured:
        page = client.get(url)
    assert page.status_code == 200
    return len(captured)


def assert_constant(
    client: Client, addresses: Sequence[str], more_rows: Callable[[], object]
) -> None:
    """Opening each page takes as many statements after `more_rows` as before."""
    before = {url: queries_of(client, url) for url in addresses}
    more_rows()
    assert {url: queries_of(client, url) for url in addresses} == before
    assert max(before.values()) <= MOST_QUERIES
