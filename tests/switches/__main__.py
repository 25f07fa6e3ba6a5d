"""`python -m tests.switches [SWITCH ...]` prints one line per switch; 1 when a run stays green."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import django


def main(names: list[str]) -> int:
    os.environ.setdefault("DJANGO_ENV", "test")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    table = import_module("tests.switches.runs")
    ok = True
    for run in table.all_runs(names or table.SWITCHES):
        print(run.line(), flush=True)
        ok &= bool(run.red) != (run.off == table.NONE)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
