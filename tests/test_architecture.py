"""The rules of the house that imports do not show; lint-imports checks those that they do."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("returns", "payments", "reconciliation")
SANDBOXES = ("payments/sandbox/", "reconciliation/sandbox/")

LONGEST_FILE_LINES = 350
LONGEST_FUNCTION_LINES = 70
BANNED_NAMES = re.compile(r"(util|helper|service|action|common|manager|handler|misc)s?")
VAGUE_VERBS = re.compile(r"_*(process|handle|manage|perform|do)(_|$)")
# Names that a framework looks for.
FRAMEWORK_VERBS = re.compile(r"handle(_error|_exception|_raw_input)?|do_[A-Z]+")

VERBS = (
    "returns/ordering.py",
    "returns/intake.py",
    "returns/inspection.py",
    "returns/closing.py",
    "payments/approval.py",
    "payments/batches.py",
    "payments/reservation.py",
    "payments/settlement.py",
)
MONEY = ("returns/money.py", "returns/refundable.py", *VERBS)
PURE = (
    "returns/money.py",
    "returns/refundable.py",
    "returns/states.py",
    "returns/errors.py",
    "returns/policy.py",
    "returns/parsing/",
    "payments/protocol.py",
    "payments/capabilities.py",
    "payments/outcomes.py",
    "payments/providers/",
    "reconciliation/erp/",
    "reconciliation/matching.py",
)
# What opens connections to elsewhere, and who may: adapters, rehearsals, checks of reachability.
OUTBOUND_MODULES = re.compile(r"(stripe|httpx|requests|aiohttp|http\.client|urllib\.request)\b")
OUTBOUND_PLACES = (
    "config/",
    "payments/providers/",
    "payments/management/",
    "reconciliation/drills/",
    "reconciliation/erp/",
    "reconciliation/management/",
    *SANDBOXES,
)
# Names under which code holds something that calls out.
OUTBOUND_NAMES = {"adapter", "provider", "erp", "client", "stripe", "httpx", "requests"}
SIGNAL_MODULES = re.compile(
    r"django\.dispatch|django\.(db\.models|core)\.signals|django_fsm\.signals"
)
# Waiting is the job of those who look again and again, and of a fault that is called "slow".
SLEEPING_PLACES = (
    "config/",
    "reconciliation/management/commands/sweep.py",
    "reconciliation/drills/",
    # A short pause between two tries.
    "returns/retrying.py",
    *SANDBOXES,
)
RETRIES = "database_work_is_retried"
# Which modules open transactions for the verbs and the protocol; an import of orders is one verb
# per order.
TRANSACTIONS = (
    *VERBS,
    "payments/handover.py",
    "payments/outbound.py",
    "payments/webhooks.py",
    "reconciliation/posting.py",
    "reconciliation/resolving.py",
)


@dataclass(frozen=True)
class Source:
    """One Python file of the project."""

    path: str
    text: str
    tree: ast.Module

    @property
    def in_migration(self) -> bool:
        return "/migrations/" in self.path

    @property
    def in_app(self) -> bool:
        return self.path.split("/")[0] in APPS

    @property
    def in_test(self) -> bool:
        return self.path.startswith("tests/")

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)


def _read(path: Path) -> Source:
    text = path.read_text()
    return Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text))


SOURCES = [
    _read(path)
    for directory in ("config", *APPS, "tests")
    for path in sorted((ROOT / directory).rglob("*.py"))
]


def _where(node_breaks: Callable[[ast.AST], bool], sources: list[Source]) -> list[str]:
    """Every place whose node breaks a rule, as file:line."""
    return [
        f"{source.path}:{getattr(node, 'lineno', 0)}"
        for source in sources
        for node in source.nodes()
        if node_breaks(node)
    ]


def _apps(*, but: tuple[str, ...] = (), migrations: bool = False) -> list[Source]:
    return [
        source
        for source in SOURCES
        if source.in_app
        and (migrations or not source.in_migration)
        and not source.path.startswith(but or ("-",))
    ]


def _imported(node: ast.AST) -> list[str]:
    """The full names an import statement brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _imports(pattern: re.Pattern[str]) -> Callable[[ast.AST], bool]:
    return lambda node: any(pattern.match(name) for name in _imported(node))


def _names(name: str) -> Callable[[ast.AST], bool]:
    """Nodes that mention a name, on its own or as somebody's attribute."""
    return lambda node: (
        (isinstance(node, ast.Attribute) and node.attr == name)
        or (isinstance(node, ast.Name) and node.id == name)
    )


def test_the_rules_are_about_files_that_exist() -> None:
    paths = {source.path for source in SOURCES}
    assert {*MONEY, "returns/locking.py"} - paths == set()


@pytest.mark.parametrize(
    ("app", "above"),
    [("returns", "payments|reconciliation"), ("payments", "reconciliation")],
)
def test_no_text_names_something_of_an_app_above(app: str, above: str) -> None:
    """Neither a foreign key by name nor a task by name may point from goods up to money."""
    upward = re.compile(rf"({above})\.[A-Za-z_]")

    def points_up(node: ast.AST) -> bool:
        text = node.value if isinstance(node, ast.Constant) else None
        return isinstance(text, str) and upward.match(text) is not None

    sources = [source for source in SOURCES if source.path.startswith(f"{app}/")]
    assert _where(points_up, sources) == []


def test_files_are_short() -> None:
    too_long = [
        f"{source.path}: {lines} lines"
        for source in SOURCES
        if not source.in_test and not source.in_migration
        if (lines := len(source.text.splitlines())) > LONGEST_FILE_LINES
    ]
    assert too_long == []


def test_functions_are_short() -> None:
    def is_long(node: ast.AST) -> bool:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.end_lineno is None:
            return False
        return node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION_LINES

    assert _where(is_long, [source for source in SOURCES if not source.in_migration]) == []


def test_files_are_called_after_a_noun_or_an_activity() -> None:
    vague = [
        source.path
        for source in SOURCES
        if any(BANNED_NAMES.fullmatch(part) for part in Path(source.path).with_suffix("").parts)
    ]
    assert vague == []


def test_functions_are_called_after_what_they_do() -> None:
    def is_vague(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.FunctionDef)
            and VAGUE_VERBS.match(node.name) is not None
            and FRAMEWORK_VERBS.fullmatch(node.name) is None
        )

    assert _where(is_vague, SOURCES) == []


def test_rows_are_locked_in_one_module() -> None:
    assert _where(_names("select_for_update"), _apps(but=("returns/locking.py",))) == []


def test_nobody_sleeps_but_those_who_look_again() -> None:
    sources = [
        source
        for source in SOURCES
        if not source.in_test and not source.path.startswith(SLEEPING_PLACES)
    ]
    assert _where(_names("sleep"), sources) == []


def test_only_adapters_and_rehearsals_can_call_out() -> None:
    assert _where(_imports(OUTBOUND_MODULES), _apps(but=OUTBOUND_PLACES)) == []


def _calls_out(node: ast.AST) -> bool:
    """Whether this is a call of something that calls out, or of what hands it over."""
    if not isinstance(node, ast.Call):
        return False
    holder = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", None)
    return name in OUTBOUND_NAMES


def test_nothing_calls_out_inside_a_transaction() -> None:
    """By what the code names; at run time the outbound protocol refuses as well."""

    def is_atomic(node: ast.AST) -> bool:
        if isinstance(node, ast.With):
            openers = [item.context_expr for item in node.items]
        elif isinstance(node, ast.FunctionDef):
            openers = node.decorator_list
        else:
            return False
        return any(_names("atomic")(part) for opener in openers for part in ast.walk(opener))

    def calls_out_under_atomic(node: ast.AST) -> bool:
        return is_atomic(node) and any(_calls_out(part) for part in ast.walk(node))

    assert _where(calls_out_under_atomic, _apps(but=SANDBOXES)) == []


def _functions(source: Source) -> Iterator[ast.FunctionDef]:
    return (node for node in source.nodes() if isinstance(node, ast.FunctionDef))


def _decorators(function: ast.FunctionDef) -> list[str]:
    """The names of a function's decorators, outermost first."""
    called = (part.func if isinstance(part, ast.Call) else part for part in function.decorator_list)
    return [part.id for part in called if isinstance(part, ast.Name)]


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(_names(name)(part) for name in names for part in ast.walk(node))


def test_every_transaction_of_a_verb_is_tried_again_when_the_database_undoes_it() -> None:
    once = [
        f"{source.path}:{function.name}"
        for source in SOURCES
        if source.path in TRANSACTIONS
        for function in _functions(source)
        if _mentions(function, {"atomic"}) and RETRIES not in _decorators(function)
    ]
    assert once == []


def test_what_is_tried_again_calls_nobody() -> None:
    retried = [
        (source, function)
        for source in _apps()
        for function in _functions(source)
        if RETRIES in _decorators(function)
    ]
    assert {source.path for source, _ in retried} <= set(TRANSACTIONS)
    assert [
        f"{source.path}:{function.name}"
        for source, function in retried
        if any(_calls_out(part) for part in ast.walk(function))
    ] == []


def test_a_refusal_is_recorded_once_and_not_at_every_try() -> None:
    inside_out = [
        f"{source.path}:{function.name}"
        for source in SOURCES
        for function in _functions(source)
        if RETRIES in (names := _decorators(function)) and names[-1] != RETRIES
    ]
    assert inside_out == []


def test_money_is_never_a_float() -> None:
    def is_float(node: ast.AST) -> bool:
        return (
            _names("float")(node)
            or isinstance(node, ast.Div)
            or (isinstance(node, ast.Constant) and isinstance(node.value, float))
        )

    money = [source for source in SOURCES if source.path in MONEY]
    assert _where(is_float, money) == []
    assert _where(_names("FloatField"), _apps(migrations=True)) == []


def test_pure_modules_know_no_database() -> None:
    database = re.compile(r"(django\.db(?!\.models\.TextChoices$)|psycopg|pgtrigger|pghistory)\b")
    pure = [source for source in SOURCES if source.path.startswith(PURE)]
    assert _where(_imports(database), pure) == []


def test_triggers_are_lifted_in_migrations_only() -> None:
    def lifts(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr == "ignore"
            and isinstance(node.value, ast.Name)
            and node.value.id == "pgtrigger"
        ) or "pgtrigger.ignore" in _imported(node)

    assert _where(lifts, [source for source in SOURCES if not source.in_migration]) == []


def test_a_row_with_a_state_is_read_again_under_its_lock() -> None:
    assert _where(_names("refresh_from_db"), _apps()) == []


def test_there_are_no_signals() -> None:
    assert _where(_imports(SIGNAL_MODULES), _apps()) == []
