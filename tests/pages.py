"""Browsing the pages without a browser: sign in, read what stands there, send the forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.html import Element, parse_html
from django.test.utils import CaptureQueriesContext

# Sign-in and session are read on every request; a page must not need more than this on top.
MOST_QUERIES = 30


def signed_in(user: User) -> Client:
    """A client with this user's session."""
    client = Client()
    client.force_login(user)
    return client


def form_on(page: Any, action: str) -> dict[str, str]:
    """The fields of the page's last form with this action, as the browser would send them."""
    forms = [
        element
        for element in _elements(parse_html(page.content.decode()))
        if element.name == "form" and dict(element.attributes).get("action") == action
    ]
    assert forms, f"no form for {action} on the page"
    fields = [_field(element) for element in _elements(forms[-1])]
    named = dict(filter(None, fields))
    named.pop("csrfmiddlewaretoken", None)
    return named


def _elements(root: Element) -> Iterator[Element]:
    yield root
    for child in root.children:
        if isinstance(child, Element):
            yield from _elements(child)


def _field(element: Element) -> tuple[str, str] | None:
    """Name and value of what is sent even if nobody touches it; boxes and buttons are not."""
    given = dict(element.attributes)
    name = given.get("name")
    if name and element.name == "textarea":
        return name, "".join(map(str, element.children)).strip()
    if name and element.name == "input" and given.get("type") not in ("checkbox", "radio"):
        return name, given.get("value") or ""
    return None


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
