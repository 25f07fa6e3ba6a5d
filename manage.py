#!/usr/bin/env python
"""Django's command line."""

import os
import sys

from config.running_demo import join

if __name__ == "__main__":
    join(os.environ)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
