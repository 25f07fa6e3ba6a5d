"""Files with secrets in them: for the owner's eyes, and whole at every moment."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600; a reader sees the old text or the new one, never a half."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    Path(temporary).replace(path)
