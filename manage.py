#!/usr/bin/env python
"""Django's command line."""

from __future__ import annotations

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from config.running_demo import NOT_JOINED, join


def main() -> None:
    """Run a command; settings that are missing or wrong are a sentence, not a traceback."""
    join(os.environ)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error) if "DJANGO_ENV" in os.environ else f"{error}\n{NOT_JOINED}")


if __name__ == "__main__":
    main()
