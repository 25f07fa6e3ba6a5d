"""Loaded with `pytest -p tests.switches.plugin`: turns a switch off before any test is read."""

from __future__ import annotations

from importlib import import_module


def pytest_collection() -> None:
    # Django is ready now, and was not when this plugin was loaded.
    import_module("tests.switches.switch").turn_off_from_environment()
