"""The outbound protocol as pure functions: each rule by name, then all on a grid of facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from payments.outcomes import (
    Absent,
    Accepted,
    Capabilities,
    Deferred,
    Outcome,
    Purpose,
    Refused,
    Settled,
    Unknown,
)
from payments.protocol import (
    DEATHS_BEFORE_PARKING,
    DEFERRED_SECONDS,
    LONGEST_LOOK_SECONDS,
    Facts,
    Judgement,
    Step,
    Timing,
    Verdict,
    back_off_seconds,
    decide,
    is_quiet,
    judge,
)
from returns.states import TASK_EDGES, TaskState, edge

NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)
TIMING = Timing(lease_seconds=30, call_seconds=12, margin_seconds=3)
KEYED = Capabilities(key_memory_seconds=24 * 60 * 60, lookup_lag_seconds=2)
KEYLESS = Capabilities(key_memory_seconds=None, lookup_lag_seconds=2)
# Drafts at an ERP: repeating one is harmless, posting is a second step, a refusal is for a person.
DRAFTS = Capabilities(
    key_memory_seconds=None,
    lookup_lag_seconds=0,
    repeat_is_harmless=True,
    two_steps=True,
    refusal_needs_a_person=True,
)
BY_PERSON = Capabilities(key_memory_seconds=None, lookup_lag_seconds=0, by_person=True)
QUIET_AFTER = timedelta(seconds=KEYED.max_under_way_seconds + KEYED.lookup_lag_seconds)

SETTLED = Settled("re_1", 5000, "EUR")
ACCEPTED = Accepted("re_1", 5000, "EUR")
NO_ANSWER = Unknown("the connection broke")
NO = Refused("charge_already_refunded", "Charge has already been refunded.")


def ago(**kwargs: float) -> datetime:
    return NOW - timedelta(**kwargs)


def ahead(**kwargs: float) -> datetime:
    return NOW + timedelta(**kwargs)


FRESH = Facts(
    now=NOW,
    state=TaskState.PENDING,
    lease_until=None,
    next_look_at=ahead(seconds=10),
    last_sent_at=None,
    last_send_ends_at=None,
    safe_retry_until=None,
    absent_at=None,
    in_doubt=False,
    refused_in_doubt=False,
    deaths=0,
    quiet_looks=0,
    amount_minor=5000,
    currency="EUR",
)
# One minute ago a request was sent and no answer came; a look is due.
DOUBTED = replace(
    FRESH,
    state=TaskState.UNKNOWN,
    next_look_at=ago(seconds=1),
    last_sent_at=ago(minutes=1),
    last_send_ends_at=ago(seconds=30),
    safe_retry_until=ahead(hours=22),
    in_doubt=True,
)
SENDING = replace(
    DOUBTED,
    state=TaskState.SENDING,
    lease_until=ahead(seconds=20),
    last_sent_at=ago(seconds=10),
    last_send_ends_at=ahead(seconds=20),
    in_doubt=False,
)


def step(facts: Facts, capabilities: Capabilities = KEYED) -> Step:
    return decide(facts, capabilities, TIMING).step


def sent(facts: Facts, outcome: Outcome, capabilities: Capabilities = KEYED) -> Judgement:
    return judge(facts, Purpose.SEND, NOW, outcome, capabilities)


def asked(facts: Facts, outcome: Outcome, capabilities: Capabilities = KEYED) -> Judgement:
    return judge(facts, Purpose.ASK, NOW, outcome, capabilities)


# What to do next.


def test_a_fresh_row_is_sent_at_once() -> None:
    assert step(FRESH) is Step.SEND


def test_a_deferred_row_waits_for_its_time_and_is_then_sent() -> None:
    deferred = replace(DOUBTED, state=TaskState.PENDING, in_doubt=False)
    assert step(replace(deferred, next_look_at=ahead(seconds=1))) is Step.WAIT
    assert step(deferred) is Step.SEND


def test_unknown_is_asked_before_anything_is_sent_again() -> None:
    assert step(DOUBTED) is Step.ASK


def test_nothing_is_asked_before_its_look_is_due() -> None:
    assert step(replace(DOUBTED, next_look_at=ahead(seconds=1))) is Step.WAIT


def test_after_an_absent_look_up_it_is_sent_again() -> None:
    assert step(replace(DOUBTED, absent_at=ago(seconds=5))) is Step.SEND


def test_an_absent_look_up_from_before_the_last_send_proves_nothing() -> None:
    assert step(replace(DOUBTED, absent_at=ago(minutes=2))) is Step.ASK


def test_an_absent_look_up_within_the_lag_proves_nothing() -> None:
    lag = timedelta(seconds=KEYED.lookup_lag_seconds)
    sent_at = ago(minutes=1)
    assert step(replace(DOUBTED, absent_at=sent_at + lag)) is Step.ASK
    assert step(replace(DOUBTED, absent_at=sent_at + lag + timedelta(microseconds=1))) is Step.SEND


def test_nothing_is_sent_again_when_the_lease_would_outlive_the_memory_of_the_key() -> None:
    lease_ends = timedelta(seconds=TIMING.lease_seconds + TIMING.margin_seconds)
    absent = replace(DOUBTED, absent_at=ago(seconds=5))
    assert step(replace(absent, safe_retry_until=NOW + lease_ends)) is Step.SEND
    too_late = replace(absent, safe_retry_until=NOW + lease_ends - timedelta(microseconds=1))
    decision = decide(too_late, KEYED, TIMING)
    assert (decision.step, decision.attention) == (Step.PARK, "window_closed")


def test_a_closed_window_does_not_stop_the_asking() -> None:
    assert step(replace(DOUBTED, safe_retry_until=ago(hours=1))) is Step.ASK


def test_a_provider_without_keys_gets_a_repeat_only_after_a_quiet_look_up() -> None:
    long_after = replace(
        DOUBTED,
        last_sent_at=ago(hours=1),
        last_send_ends_at=ago(minutes=59),
        safe_retry_until=None,
    )
    quiet_from = ago(minutes=59) + QUIET_AFTER
    assert step(replace(long_after, absent_at=quiet_from), KEYLESS) is Step.ASK
    just_after = quiet_from + timedelta(microseconds=1)
    assert step(replace(long_after, absent_at=just_after), KEYLESS) is Step.SEND


def test_after_a_refusal_in_doubt_nothing_is_sent_again() -> None:
    refused = replace(DOUBTED, refused_in_doubt=True, absent_at=ago(seconds=5))
    assert step(refused) is Step.ASK


@pytest.mark.parametrize("state", [TaskState.SENDING, TaskState.UNKNOWN, TaskState.ACCEPTED])
def test_an_expired_lease_is_asked_about_never_sent(state: str) -> None:
    expired = replace(DOUBTED, state=state, lease_until=ago(seconds=1), absent_at=ago(seconds=5))
    assert step(expired) is Step.ASK


def test_a_row_that_keeps_killing_its_worker_is_parked() -> None:
    dead = replace(SENDING, lease_until=ago(seconds=1))
    assert step(replace(dead, deaths=DEATHS_BEFORE_PARKING - 2)) is Step.ASK
    decision = decide(replace(dead, deaths=DEATHS_BEFORE_PARKING - 1), KEYED, TIMING)
    assert (decision.step, decision.attention) == (Step.PARK, "kills_its_worker")


def test_what_the_provider_holds_is_asked_about_when_due() -> None:
    assert step(replace(DOUBTED, state=TaskState.ACCEPTED)) is Step.ASK


# What an answer means.


def test_settled_for_our_amount_succeeds() -> None:
    assert sent(SENDING, SETTLED).verdict is Verdict.SUCCEED
    assert asked(DOUBTED, SETTLED).verdict is Verdict.SUCCEED


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (Settled("re_1", 4999, "EUR"), "amount_differs"),
        (Accepted("re_1", 5001, "EUR"), "amount_differs"),
        (Settled("re_1", 5000, "USD"), "currency_differs"),
    ],
)
def test_another_amount_or_currency_is_never_a_success(found: Outcome, word: str) -> None:
    for judgement in (sent(SENDING, found), asked(DOUBTED, found)):
        assert (judgement.verdict, judgement.attention) == (Verdict.PARK, word)
        assert judgement.in_doubt


def test_accepted_is_not_success_and_is_looked_at_again() -> None:
    judgement = sent(SENDING, ACCEPTED)
    assert judgement.verdict is Verdict.ACCEPT
    assert judgement.look_after_seconds
    held = replace(DOUBTED, state=TaskState.ACCEPTED)
    assert asked(held, ACCEPTED).verdict is Verdict.STAY


def test_an_accepted_draft_is_taken_to_its_second_step_at_once() -> None:
    judgement = sent(SENDING, ACCEPTED, DRAFTS)
    assert (judgement.verdict, judgement.look_after_seconds) == (Verdict.ACCEPT, 0)


def test_no_answer_to_a_send_is_doubt_never_failure() -> None:
    judgement = sent(SENDING, NO_ANSWER)
    assert (judgement.verdict, judgement.in_doubt) == (Verdict.DOUBT, True)
    assert judgement.look_after_seconds


def test_no_answer_to_a_look_up_changes_nothing() -> None:
    judgement = asked(DOUBTED, NO_ANSWER)
    assert (judgement.verdict, judgement.in_doubt) == (Verdict.STAY, True)
    assert judgement.look_after_seconds


def test_an_alarm_reaches_a_person_though_the_row_goes_on() -> None:
    judgement = sent(SENDING, Unknown("other parameters", alarm="key_conflict"))
    assert (judgement.verdict, judgement.attention) == (Verdict.DOUBT, "key_conflict")


def test_a_refusal_of_the_first_attempt_is_final() -> None:
    assert sent(SENDING, NO).verdict is Verdict.DECLINE


def test_a_refusal_after_a_doubt_stays_unknown() -> None:
    judgement = sent(replace(SENDING, in_doubt=True), NO)
    assert (judgement.verdict, judgement.refused_in_doubt) == (Verdict.DOUBT, True)
    assert judgement.look_after_seconds


def test_a_refusal_after_a_doubt_is_final_when_a_quiet_look_up_agrees() -> None:
    refused = replace(DOUBTED, refused_in_doubt=True)
    early = asked(refused, Absent())
    assert (early.verdict, early.refused_in_doubt) == (Verdict.STAY, True)
    quiet = replace(refused, last_send_ends_at=NOW - QUIET_AFTER - timedelta(seconds=1))
    assert asked(quiet, Absent()).verdict is Verdict.DECLINE


def test_a_refusal_for_a_person_is_set_aside_and_never_declined() -> None:
    assert sent(SENDING, NO, DRAFTS).verdict is Verdict.PARK
    quiet = replace(DOUBTED, refused_in_doubt=True, last_send_ends_at=ago(hours=1))
    judgement = asked(quiet, Absent(), DRAFTS)
    assert (judgement.verdict, judgement.attention) == (Verdict.PARK, "refused")


def test_a_found_refund_that_failed_is_a_definite_decline_where_keys_are_remembered() -> None:
    assert asked(DOUBTED, Refused("refund_failed", "re_1")).verdict is Verdict.DECLINE


def test_without_keys_a_found_failed_refund_is_final_only_when_quiet() -> None:
    failed = Refused("refund_failed", "re_1")
    early = asked(DOUBTED, failed, KEYLESS)
    assert (early.verdict, early.refused_in_doubt) == (Verdict.STAY, True)
    quiet = replace(DOUBTED, last_send_ends_at=ago(hours=1))
    assert asked(quiet, failed, KEYLESS).verdict is Verdict.DECLINE


def test_an_absent_payment_that_the_provider_had_accepted_is_a_case_for_a_person() -> None:
    held = replace(DOUBTED, state=TaskState.ACCEPTED)
    judgement = asked(held, Absent())
    assert (judgement.verdict, judgement.attention) == (Verdict.STAY, "vanished_at_the_provider")


def test_a_draft_that_was_deleted_is_made_again() -> None:
    judgement = asked(replace(DOUBTED, state=TaskState.ACCEPTED), Absent(), DRAFTS)
    assert (judgement.verdict, judgement.absent) == (Verdict.DOUBT, True)
    assert judgement.look_after_seconds == 0


def test_absent_after_the_lag_is_followed_by_a_send_at_once() -> None:
    judgement = asked(DOUBTED, Absent())
    assert (judgement.verdict, judgement.absent) == (Verdict.STAY, True)
    assert judgement.look_after_seconds == 0


def test_without_keys_an_early_absent_is_asked_again_later() -> None:
    judgement = asked(DOUBTED, Absent(), KEYLESS)
    assert judgement.verdict is Verdict.STAY
    assert judgement.look_after_seconds


def test_a_deferred_call_was_not_applied_and_goes_again_when_the_provider_says() -> None:
    judgement = sent(SENDING, Deferred("slow down", retry_after_seconds=17))
    assert (judgement.verdict, judgement.look_after_seconds) == (Verdict.DEFER, 17)
    assert sent(SENDING, Deferred("slow down")).look_after_seconds == DEFERRED_SECONDS


def test_a_deferred_repeat_does_not_clear_the_doubt() -> None:
    judgement = sent(replace(SENDING, in_doubt=True), Deferred("slow down"))
    assert (judgement.verdict, judgement.in_doubt) == (Verdict.DOUBT, True)


def test_refused_credentials_reach_a_person() -> None:
    judgement = sent(SENDING, Deferred("no such key", stops_account=True))
    assert (judgement.verdict, judgement.attention) == (Verdict.DEFER, "account_refused")


def test_looks_back_off_to_a_bound_with_jitter() -> None:
    waits = [back_off_seconds(looks) for looks in range(40)]
    for looks, seconds in enumerate(waits):
        middle = min(2 * 2**looks, LONGEST_LOOK_SECONDS)
        assert 0.8 * middle <= seconds <= 1.2 * middle


# Every combination of facts within bounds.

_PAST, _SOON, _FAR = ago(seconds=1), ahead(seconds=20), ahead(hours=5)
_SENT = [ago(seconds=1), ago(minutes=5), ago(hours=2)]
_LEASE = timedelta(seconds=TIMING.lease_seconds)
_ABSENT = [None, ago(seconds=0.5), ago(minutes=4), ago(minutes=80), ago(hours=3)]
_ALL = (KEYED, KEYLESS, DRAFTS, BY_PERSON)


def _grid() -> Iterator[tuple[Facts, Capabilities]]:
    flags = (False, True)
    for (
        state,
        lease,
        look,
        last,
        safe,
        absent,
        doubt,
        refused,
        deaths,
        capabilities,
    ) in itertools.product(
        TaskState.values,
        (None, _PAST, _SOON),
        (None, _PAST, _SOON),
        (None, *_SENT),
        (None, _PAST, _SOON, _FAR),
        _ABSENT,
        flags,
        flags,
        (0, DEATHS_BEFORE_PARKING - 1),
        _ALL,
    ):
        if last is None and (state != TaskState.PENDING or doubt or refused):
            continue
        yield (
            replace(
                FRESH,
                state=state,
                lease_until=lease,
                next_look_at=look,
                last_sent_at=last,
                last_send_ends_at=last + _LEASE if last else None,
                safe_retry_until=safe,
                absent_at=absent,
                in_doubt=doubt,
                refused_in_doubt=refused,
                deaths=deaths,
            ),
            capabilities,
        )


def _must_wait(facts: Facts, capabilities: Capabilities) -> bool:
    leased = facts.lease_until is not None and facts.lease_until > facts.now
    at_rest = facts.state in (TaskState.DECLINED, TaskState.RETURNED, TaskState.STUCK)
    due = facts.next_look_at is not None and facts.next_look_at <= facts.now
    unasked = facts.state == TaskState.SUCCEEDED and facts.lease_until is None and not due
    return leased or at_rest or unasked or capabilities.by_person


def _may_be_sent(facts: Facts, capabilities: Capabilities) -> bool:
    """The rules of sending, written down a second time and in another way."""
    lease_ends = facts.now + _LEASE
    if facts.safe_retry_until is not None and lease_ends > facts.safe_retry_until:
        return False
    if facts.state == TaskState.PENDING:
        return True
    if facts.state != TaskState.UNKNOWN or facts.refused_in_doubt:
        return False
    assert facts.last_sent_at is not None
    lag = timedelta(seconds=capabilities.lookup_lag_seconds)
    if facts.absent_at is None or facts.absent_at <= facts.last_sent_at + lag:
        return False
    remembers = capabilities.key_memory_seconds is not None or capabilities.repeat_is_harmless
    return remembers or is_quiet(facts, facts.absent_at, capabilities)


def test_no_combination_of_facts_lets_a_row_be_sent_against_the_rules() -> None:
    steps = dict.fromkeys(Step, 0)
    for facts, capabilities in _grid():
        decision = decide(facts, capabilities, TIMING)
        steps[decision.step] += 1
        if _must_wait(facts, capabilities):
            assert decision.step is Step.WAIT, facts
        if decision.step is Step.SEND:
            assert _may_be_sent(facts, capabilities), facts
        if decision.step is Step.PARK:
            assert decision.attention, facts
    assert all(steps.values()), steps


_OUTCOMES: list[Outcome] = [
    SETTLED,
    ACCEPTED,
    NO_ANSWER,
    NO,
    Absent(),
    Settled("re_1", 1, "EUR"),
    Settled("re_1", 5000, "USD"),
    Deferred("later"),
    Deferred("no such key", stops_account=True),
]
# What a row can be in when the answer arrives: a send leaves it `sending`, a look-up does not.
_ANSWERED_IN = {
    Purpose.SEND: {TaskState.SENDING},
    Purpose.ASK: {TaskState.UNKNOWN, TaskState.ACCEPTED},
}


def _answers() -> Iterator[tuple[Facts, Purpose, Outcome, Capabilities, Judgement]]:
    for facts, capabilities in _grid():
        plain = facts.next_look_at is None and facts.safe_retry_until is None and not facts.deaths
        if capabilities.by_person or not plain:
            continue
        for purpose, outcome in itertools.product(Purpose, _OUTCOMES):
            if facts.state in _ANSWERED_IN[purpose] and not (
                purpose is Purpose.SEND and isinstance(outcome, Absent)
            ):
                judgement = judge(facts, purpose, NOW, outcome, capabilities)
                yield facts, purpose, outcome, capabilities, judgement


def test_every_judgement_follows_an_edge_and_says_when_to_look_again() -> None:
    for facts, _, outcome, _, judgement in _answers():
        verdict = judgement.verdict
        if verdict is not Verdict.STAY:
            assert facts.state in edge(TASK_EDGES, verdict.value).sources, (facts, outcome)
        if verdict not in (Verdict.SUCCEED, Verdict.DECLINE, Verdict.PARK):
            assert judgement.look_after_seconds is not None, (facts, outcome)
        if verdict is Verdict.PARK:
            assert judgement.attention, (facts, outcome)


def test_no_answer_makes_a_decline_while_money_may_still_move() -> None:
    seen = 0
    for facts, purpose, outcome, capabilities, judgement in _answers():
        if judgement.verdict is not Verdict.DECLINE:
            continue
        seen += 1
        quiet = is_quiet(facts, NOW, capabilities)
        assert not capabilities.refusal_needs_a_person, (facts, outcome)
        if purpose is Purpose.SEND:
            assert isinstance(outcome, Refused), outcome
            assert not facts.in_doubt, facts
        elif isinstance(outcome, Absent):
            assert facts.refused_in_doubt, facts
            assert quiet, facts
        else:
            assert isinstance(outcome, Refused), outcome
            assert quiet or capabilities.key_memory_seconds is not None, facts
    assert seen


def test_only_our_own_amount_succeeds_and_a_doubt_is_never_forgotten() -> None:
    for facts, _, outcome, _, judgement in _answers():
        if judgement.verdict is Verdict.SUCCEED:
            assert outcome == SETTLED
        if facts.in_doubt:
            assert judgement.in_doubt, (facts, outcome)
        if facts.refused_in_doubt and judgement.verdict in (Verdict.STAY, Verdict.DOUBT):
            redrafted = judgement.absent and facts.state == TaskState.ACCEPTED
            assert judgement.refused_in_doubt or redrafted, (facts, outcome)
