"""What breaks things while the soak runs: programs killed, workers frozen, the database gone.

The deeds are dealt like cards, each kind as often as it is in the deck before any comes again; the
seed decides the order, chance the moment.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from types import TracebackType

import psutil
from django.conf import settings

from reconciliation.drills.armed_workers import BEYOND_LEASE_SECONDS, ArmedWorkers
from reconciliation.drills.own_processes import kill_own, own_process, workers_of
from reconciliation.drills.place import Demo, DrillError
from reconciliation.drills.sandboxes import SandboxProvider
from reconciliation.drills.window import Window

TICK_SECONDS = 0.5
# Between two deeds, on average: quick enough for a short run, not all the time in a long one.
LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 1.5, 6.0
ORDERS_A_SECOND_OF_PAUSE = 250
# Twice through the deck at least, however few orders there are.
LEAST_ROUNDS = 2
EVENTS_HELD_SECONDS = 3.0
EVENTS_AT_ONCE = 8
STOP_SECONDS = 120

DATABASE_RESTART = "database restarted at once"
DATABASE_KILL = "database killed"

_CALLING = """
    SELECT a.worker FROM payments_paymentattempt a
    WHERE a.step = 'started' AND a.at > now() - interval '20 seconds' AND NOT EXISTS (
        SELECT 1 FROM payments_paymentattempt e
        WHERE e.row_id = a.row_id AND e.lease = a.lease AND e.step = 'ended'
    )
"""


# A deed with its name; it says whether it could be done.
Card = tuple[str, Callable[[Window], bool]]


class Chaos:
    """A thread that does one harm after the other; a context manager that sets all right again."""

    def __init__(
        self, demo: Demo, provider: SandboxProvider, workers: ArmedWorkers, lot: Random, orders: int
    ) -> None:
        self._demo = demo
        self._provider = provider
        self._workers = workers
        self._lot = lot
        pause = orders / ORDERS_A_SECOND_OF_PAUSE
        self._pause_seconds = min(max(pause, LEAST_PAUSE_SECONDS), MOST_PAUSE_SECONDS)
        self.done: Counter[str] = Counter()
        self.owns_database = _is_embedded(demo)
        self._deck = self._new_deck()
        self._frozen: list[tuple[float, psutil.Process]] = []
        self._rounds = 0
        self._enough = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def __enter__(self) -> Chaos:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._rounds = LEAST_ROUNDS
        self._enough.set()
        self._thread.join(STOP_SECONDS)

    def come_to_an_end(self) -> None:
        """Wait until every deed has been done often enough; nothing breaks after that.

        Raises DrillError when a deed could not be done.
        """
        self._enough.set()
        self._thread.join()
        if self._error is not None:
            raise DrillError(f"The chaos has broken off: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            with Window(self._demo.database_url) as window:
                self._deal(window)
        except Exception as error:  # noqa: BLE001 - told to whoever waits for the end
            self._error = error
        finally:
            self._thaw(everyone=True)
            self._provider.hold_events(held=False)

    def _deal(self, window: Window) -> None:
        due_at = time.monotonic() + self._pause_seconds
        while not self._enough.is_set() or self._rounds < LEAST_ROUNDS:
            self._workers.tend()
            self._thaw()
            if time.monotonic() >= due_at:
                name, deed = self._next_card()
                # What was to be struck may just have died of something else.
                with suppress(psutil.NoSuchProcess):
                    self.done[name] += deed(window)
                due_at = time.monotonic() + self._pause_seconds * self._lot.uniform(0.5, 1.5)
            time.sleep(TICK_SECONDS)

    def _next_card(self) -> Card:
        card = self._deck.pop()
        if not self._deck:
            self._deck = self._new_deck()
            self._rounds += 1
        return card

    def _new_deck(self) -> list[Card]:
        programs = ("money", "books", "sweep")
        deck: list[Card] = [
            (f"{name} killed", partial(self._kill_program, name)) for name in programs
        ]
        deck += [("web worker killed", self._kill_web_worker)] * 2
        deck += [("worker frozen beyond its lease", self._freeze)]
        deck += [("events held, shuffled and doubled", self._shuffle_events)]
        if self.owns_database:
            deck += [(DATABASE_RESTART, self._restart_database)]
            deck += [(DATABASE_KILL, self._kill_database)]
        self._lot.shuffle(deck)
        return deck

    # The deeds.

    def _kill_program(self, name: str, _window: Window) -> bool:
        return kill_own(self._demo, self._demo.programs()[name])

    def _kill_web_worker(self, _window: Window) -> bool:
        workers = list(workers_of(self._demo, "web"))
        return bool(workers) and kill_own(self._demo, self._lot.choice(workers).pid)

    def _freeze(self, window: Window) -> bool:
        """One of those who wait for an answer right now, or any that has nothing to do."""
        calling = [int(name.rpartition(":")[2]) for (name,) in window.rows(_CALLING)]
        idle = [worker.pid for worker in workers_of(self._demo, "money")]
        for pid in [*calling, *idle]:
            worker = own_process(self._demo, pid)
            if worker is not None:
                worker.suspend()
                until = time.monotonic() + self._demo.lease_seconds + BEYOND_LEASE_SECONDS
                self._frozen.append((until, worker))
                return True
        return False

    def _shuffle_events(self, _window: Window) -> bool:
        """Kept back for a while, then all at the same moment, in any order, some of them twice."""
        self._provider.hold_events(held=True)
        time.sleep(EVENTS_HELD_SECONDS)
        events = self._provider.undelivered()
        events += self._lot.sample(events, k=len(events) // 2)
        self._lot.shuffle(events)
        for start in range(0, len(events), EVENTS_AT_ONCE):
            self._provider.deliver(events[start : start + EVENTS_AT_ONCE])
        self._provider.hold_events(held=False)
        return True

    def _restart_database(self, _window: Window) -> bool:
        _embedded(self._demo, "restart", "--mode", "immediate")
        return True

    def _kill_database(self, window: Window) -> bool:
        """kill -9 of PostgreSQL's first process; the demo starts it again."""
        ((backend,),) = window.rows("SELECT pg_backend_pid()")
        psutil.Process(psutil.Process(backend).ppid()).kill()
        return True

    def _thaw(self, *, everyone: bool = False) -> None:
        now = time.monotonic()
        for until, worker in list(self._frozen):
            if everyone or now > until:
                self._frozen.remove((until, worker))
                if worker.is_running():
                    worker.resume()


def _is_embedded(demo: Demo) -> bool:
    """Whether the demo's database is its own: nobody else's is restarted."""
    if not (demo.data_dir / "postgres.json").exists():
        return False
    try:
        return _embedded(demo, "url") == demo.database_url
    except DrillError:
        return False


def _embedded(demo: Demo, *action: str) -> str:
    """Ask the embedded server's own command. Raises DrillError with what it says."""
    command = [sys.executable, "-m", "config.embedded", f"--data-dir={demo.data_dir}", *action]
    asked = subprocess.run(  # noqa: S603 - our own program
        command,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
        timeout=STOP_SECONDS,
    )
    if asked.returncode != 0:
        raise DrillError(asked.stderr.strip())
    return asked.stdout.strip()
