"""What every sandbox does between a request and its books: faults, journal, control API.

A sandbox is a single-writer state machine: `commit` writes changes to the journal and applies
them to memory under one lock; a restart applies the same changes again.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from payments.sandbox.clock import Clock
from payments.sandbox.exchange import (
    Answer,
    BadRequestError,
    NoRouteError,
    Request,
    Routes,
    json_answer,
    refused,
)
from payments.sandbox.faults import Fault, FaultBook
from payments.sandbox.journal import Change, Journal, JsonObject
from payments.sandbox.request_log import RequestLog

Control = Callable[..., Answer]

# Applied and then lost on the way back: what arrives looks like an answer and is none.
GARBAGE = Answer(200, b'{"id": "<html><body>upstream', content_type="text/html")


class Sandbox(ABC):
    fault_modes: ClassVar[frozenset[str]]
    default_fault_target: ClassVar[str]

    def __init__(self, data: Path) -> None:
        """Open the storage in `data`; raises JournalBusyError or JournalDamagedError."""
        self.lock = threading.RLock()
        self.clock = Clock()
        self.stopping = threading.Event()
        self.faults = FaultBook(self.fault_modes, self.default_fault_target)
        self._journal = Journal(data / "journal.jsonl")
        self._requests = RequestLog(data / "requests.jsonl", self.clock)
        self._on_their_way: dict[threading.Timer, Request] = {}
        self._control = Routes(self.control_routes())
        self._appliers = self.appliers()
        for kind, facts in self._journal.replay():
            self._appliers[kind](facts)

    # What a sandbox adds to this base.

    def appliers(self) -> dict[str, Callable[[JsonObject], None]]:
        """How each kind of change alters the memory; used by commit and by replay."""
        return {"clock": self.clock.record}

    def control_routes(self) -> dict[str, Control]:
        return {
            "GET /_control/health": lambda _: json_answer(200, {"status": "ok"}),
            "GET /_control/requests": lambda _: json_answer(200, self._requests.seen()),
            "GET /_control/faults": lambda _: json_answer(200, self.faults.listed()),
            "POST /_control/faults": self._order_fault,
            "DELETE /_control/faults": self._clear_faults,
            "POST /_control/clock": self._advance_clock,
            "GET /_control/late": self._show_late,
            "POST /_control/late": self._let_arrive,
            "POST /_control/reset": self._reset,
        }

    @abstractmethod
    def execute(self, request: Request, mode: str) -> Answer:
        """Carry the request out, or refuse it; `mode` is the fault that hits it, or ""."""

    @abstractmethod
    def refusal(self, fault: Fault) -> Answer | None:
        """The answer of a fault that refuses before anything happened; None for the others."""

    @abstractmethod
    def parameters(self, request: Request) -> object:
        """The body as understood, for the request log."""

    @abstractmethod
    def forget_everything(self) -> None:
        """Empty the memory; the journal is already empty."""

    @contextmanager
    def under_way(self, request: Request) -> Iterator[Answer | None]:
        """Surrounds a request until it is answered; yields a refusal if it may not start."""
        yield None

    # The base itself.

    def commit(self, changes: Sequence[Change]) -> None:
        """Write the changes as one effect, then apply them."""
        with self.lock:
            self._journal.append(changes)
            for kind, facts in changes:
                self._appliers[kind](facts)

    def answer(self, request: Request) -> Answer | None:
        """The answer to send; None means hang up without one."""
        if request.path.startswith("/_control/"):
            return self._answer_control(request)
        fault = self.faults.take(request)
        return self._refused_or_lost(request, fault) if fault else self._carried_out(request, None)

    def start(self) -> None:  # noqa: B027 - most have nothing to start
        """Begin what runs in the background."""

    def stop(self) -> None:
        self.stopping.set()
        self._cancel_late_requests()

    def _answer_control(self, request: Request) -> Answer:
        try:
            control, identifiers = self._control.find(request)
            return control(request, *identifiers)
        except NoRouteError as error:
            return refused(error.status, "no_route", str(error))
        except BadRequestError as error:
            return refused(400, "invalid", str(error))

    def _refused_or_lost(self, request: Request, fault: Fault) -> Answer | None:
        """Faults that keep the request from having an effect now; the others let it through."""
        if fault.mode == "late":
            self._arrive_later(request, fault.seconds)
        refusal = self.refusal(fault)
        if fault.mode in {"late", "drop_before"} or refusal is not None:
            self._requests.note(request, self.parameters(request), fault, refusal)
            return refusal
        return self._carried_out(request, fault)

    def _carried_out(self, request: Request, fault: Fault | None) -> Answer | None:
        mode = fault.mode if fault else ""
        with self.under_way(request) as refusal:
            answer = refusal or self.execute(request, mode)
            if mode == "garbage_after":
                answer = GARBAGE
            self._requests.note(request, self.parameters(request), fault, answer)
            lost = mode == "drop_after"
            if fault and mode == "slow":
                lost = self.stopping.wait(fault.seconds)  # stopped meanwhile: never answered
        return None if lost else answer

    def _arrive_later(self, request: Request, seconds: float) -> None:
        def arrive() -> None:
            if self._on_their_way.pop(timer, None):
                self._carried_out(request, None)

        timer = threading.Timer(seconds, arrive)
        timer.daemon = True
        self._on_their_way[timer] = request
        timer.start()

    def _cancel_late_requests(self) -> None:
        for timer in list(self._on_their_way):
            timer.cancel()
        self._on_their_way.clear()

    def _show_late(self, request: Request) -> Answer:
        """What has been sent and has not arrived, oldest first."""
        late = list(self._on_their_way.values())
        return json_answer(
            200, [{"target": r.target, "idempotency_key": r.idempotency_key} for r in late]
        )

    def _let_arrive(self, request: Request) -> Answer:
        """Everything on its way arrives now, oldest first; answers when it has."""
        arrived = list(self._on_their_way)
        for timer in arrived:
            timer.cancel()
            timer.function()
        return json_answer(200, {"arrived": len(arrived)})

    def _order_fault(self, request: Request) -> Answer:
        return json_answer(201, self.faults.order(request.json_object()))

    def _clear_faults(self, request: Request) -> Answer:
        self.faults.clear()
        return json_answer(200, [])

    def _advance_clock(self, request: Request) -> Answer:
        seconds = request.json_object().get("advance_seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            raise BadRequestError("advance_seconds must be a number, not negative")
        with self.lock:
            self.commit([self.clock.advanced_by(seconds)])
            return json_answer(200, {"now": self.clock.now().isoformat()})

    def _reset(self, request: Request) -> Answer:
        with self.lock:
            self._cancel_late_requests()
            self._journal.clear()
            self._requests.clear()
            self.faults.clear()
            self.clock.clear()
            self.forget_everything()
        return json_answer(200, {"status": "empty"})


def one_of(facts: Mapping[str, object], name: str, choices: Sequence[object]) -> object:
    """The value of a control field that must be one of `choices`; raises BadRequestError."""
    if facts.get(name) not in choices:
        raise BadRequestError(f"{name} must be one of: {', '.join(map(str, choices))}")
    return facts[name]
