"""Lists in pages, oldest first. A page costs the same however far down the list it is."""

from __future__ import annotations

import re
from typing import ClassVar

from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from returns.errors import Invalid

# Eighteen digits fit a signed 64-bit integer.
_ID = re.compile(r"[0-9]{1,18}")


class OldestFirst(CursorPagination):
    """Pages by the row's id: rows that change meanwhile are neither skipped nor repeated."""

    ordering = "id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    # What a list accepts beside its own filters.
    PARAMETERS: ClassVar = ("cursor", "page_size")

    def decode_cursor(self, request: Request) -> Cursor | None:
        if not request.query_params.get(self.cursor_query_param):
            return None
        try:
            cursor = super().decode_cursor(request)
        except NotFound as error:
            raise _made_up() from error
        position = cursor.position if cursor else None
        if position is not None and not _ID.fullmatch(str(position)):
            raise _made_up()
        return cursor


def _made_up() -> Invalid:
    return Invalid({"cursor": "Follow the links; a cursor cannot be made up."})
