"""What may be uploaded: nothing above the limit ever reaches the disk."""

from __future__ import annotations

from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

# What surrounds the file in the body of the request.
_FORM_BYTES = 64 * 1024
_LOOKED_AT_BYTES = 4096
# First bytes of what people take for a table: spreadsheets and archives, PDF, old spreadsheets.
_NO_TEXT = (b"PK\x03\x04", b"%PDF", b"\xd0\xcf\x11\xe0", b"\x1f\x8b")


class TooLargeIsRefused(FileUploadHandler):
    """Refuses a request by its announced size, before anything of it is stored."""

    def handle_raw_input(self, _body: Any, _meta: Any, content_length: int, *_: Any) -> None:
        if content_length > settings.SETTLEMENT_UPLOAD_MAX_BYTES + _FORM_BYTES:
            raise RequestDataTooBig("The file is larger than what may be uploaded.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None


def is_text(file: IO[bytes]) -> bool:
    """Whether a file begins like text, whatever its name says."""
    beginning = file.read(_LOOKED_AT_BYTES)
    file.seek(0)
    return not beginning.startswith(_NO_TEXT) and b"\0" not in beginning
