"""Fixtures of all tests: the two sandboxes, the workers, the oracle after every scenario."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
from _pytest.terminal import TerminalReporter
from pytest_django import Settings

from payments.providers import provider as cached_provider
from payments.sandbox.process import SandboxProcess
from reconciliation.erp import erp as cached_erp
from tests.oracle import assert_oracle
from tests.sandboxes import Credits, MoneyOuts, SandboxErp, SandboxProvider
from tests.workers import run_until_done

TOLD = "told"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--driver",
        default="",
        metavar="MODULE:CLASS",
        help="the refund system under test in tests/drivable (default: this product)",
    )


# Minutes each, and no use of the tests' own database: begun first, so that no process ends long
# after the others.
LONGEST = ("tests/test_demo_start.py", "tests/switches/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say a figure that belongs into the summary of the run, whichever process the test ran in."""
    return functools.partial(record_property, TOLD)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    reports = [
        report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)
    ]
    told = [text for report in reports for name, text in report.user_properties if name == TOLD]
    if told:
        terminalreporter.section("figures")
    for text in told:
        terminalreporter.write_line(str(text))


@pytest.fixture(scope="session")
def provider_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProvider]:
    """One provider for all tests of a process, on a port of its own."""
    with SandboxProcess("payments.sandbox", tmp_path_factory.mktemp("provider")) as process:
        yield SandboxProvider(process)


@pytest.fixture(scope="session")
def erp_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxErp]:
    with SandboxProcess("reconciliation.sandbox", tmp_path_factory.mktemp("erp")) as process:
        yield SandboxErp(process)


@pytest.fixture
def provider(provider_process: SandboxProvider, settings: Settings) -> Iterator[SandboxProvider]:
    """The sandbox provider, empty, and the product configured to call it."""
    settings.STRIPE_API_BASE = provider_process.url
    settings.STRIPE_WEBHOOK_SECRET = "whsec_for_tests"
    provider_process.reset()
    # The adapter reads its settings once.
    cached_provider.cache_clear()
    yield provider_process
    cached_provider.cache_clear()


@pytest.fixture
def erp(erp_process: SandboxErp, settings: Settings) -> Iterator[SandboxErp]:
    """The sandbox ERP, empty, and the product configured to call it."""
    settings.ERP_URL = erp_process.url
    erp_process.reset()
    cached_erp.cache_clear()
    yield erp_process
    cached_erp.cache_clear()


@pytest.fixture
def run_workers(
    transactional_db: None, provider: SandboxProvider, erp: SandboxErp
) -> Callable[..., None]:
    """Take everything due to its end, in this process and without waiting."""
    return functools.partial(run_until_done, provider)


@pytest.fixture(autouse=True)
def the_oracle_holds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Asserts the oracle after every test that uses the database."""
    asked_for = set(request.fixturenames)
    for name in ("transactional_db", "db", "provider", "erp"):
        # Taken first, so that they are still there at the end.
        if name in asked_for:
            request.getfixturevalue(name)
    yield
    if {"transactional_db", "db"} & asked_for or _marked(request):
        provider, erp = (
            request.getfixturevalue(name) if name in asked_for else None
            for name in ("provider", "erp")
        )
        assert_oracle(
            provider if isinstance(provider, MoneyOuts) else None,
            erp if isinstance(erp, Credits) else None,
        )


def _marked(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("django_db") is not None
