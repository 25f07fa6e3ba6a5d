"""The rules of the protocol, each with a switch. The product's code is wrapped, never changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from payments.outcomes import Capabilities, Outcome, Purpose, Refused
from payments.protocol import Decision, Facts, Judgement, Step, Timing, decide, judge
from returns.states import TaskState


class Rule(StrEnum):
    """What keeps a payment from being made twice or lost, and what each rule says."""

    SAME_KEY = "every send of one payment carries the same key"
    QUERY_FIRST = "after a doubt, ask before sending again"
    WINDOW = "send nothing again once the key may be forgotten"
    LEASE_TOKEN = "who has lost the lease writes nothing"
    LEASE_CHECK = "look at the lease right before the call"
    REFUSAL_AFTER_DOUBT = "a refusal after a doubt is not final"
    QUIET_WITHOUT_KEYS = "without keys, send again only when nothing can be under way"


@dataclass(frozen=True)
class Rules:
    """The product's `decide` and `judge` with at most one rule switched off."""

    off: Rule | None = None

    def on(self, rule: Rule) -> bool:
        """Whether a rule is kept."""
        return self.off is not rule

    def decide(self, facts: Facts, capabilities: Capabilities, timing: Timing) -> Decision:
        """The product's decision, blind to what the missing rule looks at."""
        if self.off is Rule.WINDOW:
            facts = replace(facts, safe_retry_until=None)
        capabilities = self._believed(capabilities)
        decision = decide(facts, capabilities, timing)
        if self.off is Rule.QUERY_FIRST and decision.step is Step.ASK:
            return _without_asking(facts, capabilities, timing, decision)
        return decision

    def judge(
        self,
        facts: Facts,
        purpose: Purpose,
        asked_at: datetime,
        outcome: Outcome,
        capabilities: Capabilities,
    ) -> Judgement:
        """The product's judgement, blind to what the missing rule looks at."""
        if self.off is Rule.REFUSAL_AFTER_DOUBT and isinstance(outcome, Refused):
            facts = replace(facts, in_doubt=False)
        return judge(facts, purpose, asked_at, outcome, self._believed(capabilities))

    def _believed(self, capabilities: Capabilities) -> Capabilities:
        if self.off is Rule.QUIET_WITHOUT_KEYS:
            return replace(capabilities, repeat_is_harmless=True)
        return capabilities


def _without_asking(
    facts: Facts, capabilities: Capabilities, timing: Timing, asking: Decision
) -> Decision:
    """What would be decided if a look-up had just seen nothing."""
    if facts.state not in (TaskState.UNKNOWN, TaskState.SENDING):
        return asking
    seen_nothing = replace(
        facts,
        state=TaskState.UNKNOWN,
        lease_until=None,
        next_look_at=facts.now,
        refused_in_doubt=False,
        absent_at=facts.now + timedelta(days=365),
    )
    return decide(seen_nothing, capabilities, timing)


ALL_ON = Rules()
