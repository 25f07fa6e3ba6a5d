"""What shop, customers, agents and managers do with the orders of the soak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciliation.drills.crowd import Answer, Call, Group
from reconciliation.drills.duplicate_messages import messages
from reconciliation.drills.insistence import Insistence
from reconciliation.drills.partial_refunds import asking_for_a_part, part_of
from reconciliation.drills.place import DrillError
from reconciliation.drills.scenario import PARTS, Ending, Fault, Scenario, Story, Target
from reconciliation.drills.stage import Sale, Stage

Plan = tuple[Sale, Scenario]


@dataclass(eq=False)
class Case:
    """One return of the soak, and what is known of it so far; the amount in major units."""

    operation: str
    sale: Sale
    scenario: Scenario
    amount: str
    agreed: bool = False
    # Whatever the bank had to say about it is said.
    decided: bool = False
    came_back: bool = False


class People:
    """The crowd's requests, in the order in which people make them."""

    def __init__(self, stage: Stage, ask: Insistence) -> None:
        self._stage = stage
        self._ask = ask
        # Orders whose messages became more returns than they are about.
        self.split = 0
        # Orders of which another number of parts was agreed to than fit.
        self.misfits = 0

    def carry_out(self, plans: Sequence[Plan]) -> list[Case]:
        """From the sale to the approval; the returns, agreed to or not."""
        self._stage.register_payments(sale for sale, _ in plans)
        self._all_right(self._ask.spread([self._stage.ordering(sale) for sale, _ in plans]))
        for sale, scenario in plans:
            self._order_faults_of_payment(sale, scenario)
        cases = self._take_in(plans)
        for case in cases:
            self._order_faults_of_books(case)
        self._inspect(cases)
        self._approve(cases)
        unfit = [case for case in cases if not case.agreed]
        self._all_right(
            self._ask.spread([self._stage.withdrawing(case.operation) for case in unfit])
        )
        return cases

    def _order_faults_of_payment(self, sale: Sale, scenario: Scenario) -> None:
        look_up = f"GET /v1/refunds?payment_intent={sale.payment}"
        for fault in scenario.faults:
            match = {Target.REFUND: sale.payment, Target.REFUND_LOOK_UP: look_up}.get(fault.target)
            if match:
                self._stage.provider.order_fault(fault.mode, match, seconds=fault.seconds)

    def _order_faults_of_books(self, case: Case) -> None:
        for fault in case.scenario.faults:
            if match := _match_in_books(fault, case.operation):
                self._stage.erp.order_fault(fault.mode, match, seconds=fault.seconds)

    def _take_in(self, plans: Sequence[Plan]) -> list[Case]:
        answered = self._at_once([self._messages(*plan) for plan in plans])
        cases = []
        for (sale, scenario), answers in zip(plans, answered, strict=True):
            self._all_right(answers)
            operations = dict.fromkeys(answer.body["operation"] for answer in answers)
            self.split += len(operations) != scenario.returns
            amount = part_of(sale) if scenario.story is Story.PARTS else sale.total
            cases += [Case(operation, sale, scenario, amount) for operation in operations]
        return cases

    def _messages(self, sale: Sale, scenario: Scenario) -> Group:
        stage = self._stage
        match scenario.story:
            case Story.PARTS:
                return [asking_for_a_part(stage, sale, n) for n in range(PARTS)]
            case Story.DUPLICATES:
                return messages(stage, sale)
            case Story.TWO_CHANNELS:
                return [self._message(sale, "counter"), self._message(sale, "online")]
            case Story.ONE_MESSAGE:
                return [self._message(sale, "online")]

    def _message(self, sale: Sale, channel: str) -> Call:
        return self._stage.taking_in(sale, channel, f"{channel}-{sale.number}")

    def _inspect(self, cases: Sequence[Case]) -> None:
        inspections = [
            [self._stage.inspecting(case.operation, goods=case.scenario.story is not Story.PARTS)]
            * _at_the_same_moment(case)
            for case in cases
        ]
        for answers in self._at_once(inspections):
            self._all_right(answers)

    def _approve(self, cases: Sequence[Case]) -> None:
        """The parts of one order at once; otherwise one manager, or two at the same moment."""
        groups = _by_order(cases)
        answered = self._at_once([self._approvals(group) for group in groups])
        for group, answers in zip(groups, answered, strict=True):
            scenario = group[0].scenario
            for place, answer in enumerate(answers):
                case = group[place % len(group)]
                case.agreed = case.agreed or answer.accepted
                if not answer.accepted and answer.body.get("code") != "insufficient_balance":
                    raise DrillError(f"An approval was answered with {answer}")
            self.misfits += sum(case.agreed for case in group) != scenario.fit

    def _approvals(self, group: Sequence[Case]) -> Group:
        managers = ("manager", "manager2")[: _at_the_same_moment(group[0])]
        return [
            self._stage.approving(case.operation, case.amount, by)
            for by in managers
            for case in group
        ]

    def _at_once(self, groups: Sequence[Group]) -> list[list[Answer]]:
        """Groups of one size share the rounds of the crowd; answers in the order of the groups."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, group in enumerate(groups):
            places[len(group)].append(place)
        answers: dict[int, list[Answer]] = {}
        for size, same in places.items():
            wanted: list[Group] = [groups[place] for place in same]
            if size == 1:
                alone: list[Call] = [call for (call,) in wanted]
                found = [[answer] for answer in self._ask.spread(alone)]
            else:
                found = self._ask.together(wanted)
            answers |= dict(zip(same, found, strict=True))
        return [answers[place] for place in range(len(groups))]

    @staticmethod
    def _all_right(answers: Iterable[Answer]) -> None:
        """Raises DrillError for an answer that nothing of the soak explains."""
        for answer in answers:
            if not answer.accepted:
                raise DrillError(f"A request was answered with {answer}")


def _match_in_books(fault: Fault, operation: str) -> str | None:
    """What the ERP's request carries that a fault is meant for; None when it is another's."""
    return {
        Target.ENTRY: operation,
        Target.ENTRY_LOOK_UP: f"GET /entries?reference={operation}",
        # A post does not say which entry of which return it is about: it may hit another's.
        Target.ENTRY_POST: "/post",
    }.get(fault.target)


def _at_the_same_moment(case: Case) -> int:
    return 2 if case.scenario.story is Story.TWO_CHANNELS else 1


def _by_order(cases: Sequence[Case]) -> list[list[Case]]:
    found: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[case.sale.number].append(case)
    return list(found.values())


def is_at_its_end(case: Case, state: str) -> bool:
    """Whether nothing more happens to a return in this state."""
    if not case.agreed:
        return state == "cancelled"
    if case.scenario.ending is Ending.COMES_BACK:
        return case.came_back and state == "approved"
    return state == "posted"
