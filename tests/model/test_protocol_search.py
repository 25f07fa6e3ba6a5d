"""The protocol holds in every reachable state of the model, and each of its rules is needed.

Searched: two workers, any number of attempts, look-ups, events and ticks of time, two generations
at once, three requests on the wire at once; for the books three entries and two requests. Where a
rule is off or a promise broken, the provider pays or refuses at once and the ERP makes two entries,
so that harm is found soon. Times have no numbers but orders: see `tests.model.rows`.
"""

from __future__ import annotations

import pytest

from tests.model import books, report
from tests.model.report import Line
from tests.model.rules import Rule

# A search that loses sight of the world would pass as well: it must have seen this much of it.
FEWEST_STATES = 10_000


@pytest.mark.parametrize("table", [report.payment_holds, report.books_hold])
def test_no_state_does_harm_with_all_rules_on(table: report.Table) -> None:
    for line in table():
        assert not line.harm, "\n".join([str(line), *line.path])
        assert line.states > FEWEST_STATES, str(line)


def _harmful(lines: list[Line]) -> dict[str, set[str]]:
    """For each subject the counterparts with whom the search found harm."""
    harmful: dict[str, set[str]] = {line.subject: set() for line in lines}
    for line in lines:
        if line.harm:
            harmful[line.subject].add(line.counterpart)
    return harmful


def test_each_rule_of_payments_is_needed_by_some_provider() -> None:
    with_keys, without_keys = report.PROVIDERS
    assert _harmful(report.payment_rules()) == {
        Rule.SAME_KEY: {with_keys},
        Rule.QUERY_FIRST: {without_keys},
        Rule.WINDOW: {with_keys},
        Rule.LEASE_TOKEN: {with_keys, without_keys},
        Rule.LEASE_CHECK: {with_keys, without_keys},
        Rule.REFUSAL_AFTER_DOUBT: {with_keys},
        Rule.QUIET_WITHOUT_KEYS: {without_keys},
    }


def test_a_provider_that_breaks_a_promise_can_do_harm() -> None:
    """What the README assumes of a provider is really assumed."""
    assert all(line.harm for line in report.broken_promises())


def test_each_rule_of_the_books_is_needed_without_a_unique_reference() -> None:
    any_number = {name for name, unique in report.ERPS.items() if not unique}
    assert _harmful(report.books_rules()) == dict.fromkeys(books.ErpRule, any_number)


def test_the_report_tells_every_harm_step_by_step() -> None:
    line = Line("no rule at all", "anybody", states=2, harm="paid twice", path=("pays", "pays"))
    assert "paid twice, in 2 steps" in str(line)
    assert report.story(line)[1:] == ["    1. pays", "    2. pays"]
