"""What a drill expected and what it found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_WIDTH = 58


@dataclass(frozen=True)
class Check:
    """One figure: right when what was found is what was expected."""

    name: str
    expected: int
    found: int

    @property
    def ok(self) -> bool:
        return self.expected == self.found


@dataclass(frozen=True)
class Figure:
    """One figure that nothing is expected of."""

    name: str
    value: int | float


@dataclass(frozen=True)
class Report:
    """The figures of one drill."""

    drill: str
    orders: int
    processes: int
    seconds: float
    checks: tuple[Check, ...]
    figures: tuple[Figure, ...] = ()
    seed: int | None = None

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def facts(self) -> dict[str, Any]:
        """The report for programs."""
        checks = [{**asdict(check), "ok": check.ok} for check in self.checks]
        return {**asdict(self), "seconds": round(self.seconds, 1), "ok": self.ok, "checks": checks}

    def table(self) -> str:
        """The report for people."""
        title = f"{self.drill}: {self.orders} orders, {self.processes} processes"
        if self.seed is not None:
            title += f", seed {self.seed}"
        rows = [f"{f'{title}, {self.seconds:.1f} s':<{_WIDTH}}expected     found"]
        for check in self.checks:
            verdict = "ok" if check.ok else "WRONG"
            rows.append(
                f"  {check.name:<{_WIDTH - 2}}{check.expected:>8}  {check.found:>8}  {verdict}"
            )
        rows += [f"  {figure.name:<{_WIDTH}}{figure.value:>8}" for figure in self.figures]
        if self.figures:
            rows.append("VERDICT: all is right" if self.ok else "VERDICT: WRONG")
        return "\n".join(rows)
