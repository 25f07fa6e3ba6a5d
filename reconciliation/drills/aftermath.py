"""What comes later: the bank decides, managers approve again what is owed, finance looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciliation.drills.crowd import Call
from reconciliation.drills.insistence import Insistence
from reconciliation.drills.people import Case, is_at_its_end
from reconciliation.drills.scenario import Ending
from reconciliation.drills.stage import Stage
from reconciliation.drills.window import Window

_BANK = (Ending.BANK_PAYS, Ending.BANK_REFUSES)

_STATES = """
    SELECT o.operation_key::text, o.state,
        (SELECT array_agg(t.id) FROM payments_paymenttask t
          WHERE t.operation_id = o.id AND t.state = 'stuck'),
        EXISTS (SELECT FROM reconciliation_erpposting p
          WHERE p.operation_id = o.id AND p.state = 'stuck')
    FROM returns_refundoperation o JOIN returns_order r ON r.id = o.order_id
    WHERE r.number LIKE %s
"""


@dataclass(frozen=True)
class Seen:
    """Where one return stands: its state, and what is set aside."""

    state: str
    stuck_payments: tuple[int, ...]
    stuck_posting: bool


class Aftermath:
    """Everybody who has something to do after the approval; one look at a time."""

    def __init__(self, stage: Stage, ask: Insistence, window: Window) -> None:
        self._stage = stage
        self._ask = ask
        self._window = window
        self.done: Counter[str] = Counter()

    def look(self, cases: Mapping[str, Case]) -> list[Case]:
        """Do what is due now; the returns that have not come to their end."""
        seen = self._states()
        waiting = [case for key, case in cases.items() if not is_at_its_end(case, seen[key].state)]
        self._let_the_bank_decide([case for case in waiting if _is_held(case, seen)])
        self._send_back([case for case in waiting if _comes_back_now(case, seen)])
        self._approve_again([case for case in waiting if _is_owed(case, seen)])
        self._look_after_what_is_stuck({case.operation: seen[case.operation] for case in waiting})
        return waiting

    def _states(self) -> dict[str, Seen]:
        rows = self._window.rows(_STATES, [f"DRILL-{self._stage.run}-%"])
        return {key: Seen(state, tuple(ids or ()), stuck) for key, state, ids, stuck in rows}

    def _let_the_bank_decide(self, held: Sequence[Case]) -> None:
        """On refunds that the provider has accepted and holds."""
        cases = {case.operation: case for case in held}
        for refund in self._stage.provider.refunds_of(cases):
            case = cases[refund["operation_key"]]
            if refund["status"] == "pending":
                status = "succeeded" if case.scenario.ending is Ending.BANK_PAYS else "failed"
                self._stage.provider.move_refund(refund["refund"], status)
                case.decided = True
                self.done[f"pending, then {status}"] += 1

    def _send_back(self, paid: Sequence[Case]) -> None:
        """The customer's bank returns the money of a refund that had succeeded."""
        cases = {case.operation: case for case in paid}
        for refund in self._stage.provider.refunds_of(cases):
            if refund["status"] == "succeeded":
                self._stage.provider.move_refund(refund["refund"], "failed")
                cases[refund["operation_key"]].came_back = True
                self.done["failed after success"] += 1

    def _approve_again(self, owed: Sequence[Case]) -> None:
        """A manager says yes once more to what did not work."""
        answers = self._ask.spread(
            [self._stage.approving(case.operation, case.amount) for case in owed]
        )
        self.done["approved again"] += sum(answer.accepted for answer in answers)

    def _look_after_what_is_stuck(self, seen: Mapping[str, Seen]) -> None:
        """Finance has what was set aside looked at again."""
        token = self._stage.demo.tokens["finance"]
        payments = [pk for one in seen.values() for pk in one.stuck_payments]
        postings = [key for key, one in seen.items() if one.stuck_posting]
        calls = [Call("POST", f"/api/v1/payments/{pk}/query/", token) for pk in payments]
        calls += [Call("POST", f"/api/v1/returns/{key}/post-again/", token) for key in postings]
        self._ask.spread(calls)
        self.done["payments set aside, asked about by finance"] += len(payments)
        self.done["credits set aside, posted again by finance"] += len(postings)


def _is_held(case: Case, seen: Mapping[str, Seen]) -> bool:
    held = seen[case.operation].state == "reserved"
    return held and case.scenario.ending in _BANK and not case.decided


def _comes_back_now(case: Case, seen: Mapping[str, Seen]) -> bool:
    is_posted = seen[case.operation].state == "posted"
    return is_posted and case.scenario.ending is Ending.COMES_BACK and not case.came_back


def _is_owed(case: Case, seen: Mapping[str, Seen]) -> bool:
    return seen[case.operation].state == "approved" and case.agreed and not case.came_back
