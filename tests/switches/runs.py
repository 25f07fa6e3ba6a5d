"""One pytest run per switch, and what became red in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from tests.switches.switch import SWITCHES, VARIABLE

ROOT = Path(__file__).resolve().parents[2]
# A run that is not over by then hangs, which is a finding of its own.
RUN_SECONDS = 240
NONE = "nothing: all on"


@dataclass(frozen=True)
class Run:
    """One run of tests: what was off, how many ran, which of them went red, in order."""

    off: str
    ran: int
    red: tuple[str, ...]

    def line(self) -> str:
        first = f" {self.red[0]}" if self.red else ""
        return f"{self.off:<22} {self.ran:>4} run {len(self.red):>3} red {first}"


def run(off: str | None, tests: Iterable[str], *, whole: bool = False) -> Run:
    """Run tests with one switch off; stops at the first red one unless `whole`.

    Raises RuntimeError when pytest could not run them.
    """
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.switches.plugin"),
            *("-p", "no:cacheprovider", "--reuse-db", f"--junit-xml={report}"),
            *([] if whole else ["-x"]),
            *tests,
        ]
        finished = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(off),
            timeout=RUN_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode not in (0, 1):
            raise RuntimeError(finished.stdout + finished.stderr)
        return _read(off or NONE, report)


def all_runs(names: Iterable[str] = SWITCHES) -> Iterable[Run]:
    """The tests with every switch on, then one run per switch."""
    wanted = {name: SWITCHES[name] for name in names}
    yield run(None, sorted({test for switch in wanted.values() for test in switch.tests}))
    for name, switch in wanted.items():
        yield run(name, switch.tests)


def _environment(off: str | None) -> dict[str, str]:
    """A run of its own on a database of its own, not a part of the run that asks for it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    address = urlsplit(kept["DATABASE_URL"])
    kept["DATABASE_URL"] = address._replace(path=f"{address.path}_switches").geturl()
    kept.pop(VARIABLE, None)
    return kept | ({VARIABLE: off} if off else {})


def _read(off: str, report: Path) -> Run:
    cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314 - written by pytest
    red = [
        str(case.get("name"))
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return Run(off, len(cases), tuple(dict.fromkeys(red)))
