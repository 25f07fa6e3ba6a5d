"""`python -m tests.model` searches the protocol and prints what it found. No database is needed."""

from __future__ import annotations

import logging
import os
from importlib import import_module

import django


def main() -> None:
    os.environ.setdefault("DJANGO_ENV", "test")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    # The product warns of every draft that it could not delete; here that is all in a day's work.
    logging.disable(logging.WARNING)
    for line in import_module("tests.model.report").lines():
        print(line, flush=True)


if __name__ == "__main__":
    main()
