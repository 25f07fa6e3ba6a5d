"""Actors that stand still at their points, and who of them can go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from django.db import connection

from tests.races.staging import PATIENCE_SECONDS

# How often the database is asked whether an actor that has not come to its next point waits there.
ASK_AGAIN_SECONDS = 0.01

_here = threading.local()


@dataclass(frozen=True)
class Actor:
    """Somebody with one verb; `ready` says whether there is anything to begin with yet."""

    name: str
    verb: Callable[[], object]
    ready: Callable[[], bool] = lambda: True


def turn(at: str) -> None:
    """In an actor: stand still here until it is this actor's turn. Everybody else walks on."""
    player: Player | None = getattr(_here, "player", None)
    if player is not None:
        player.stop(at)


class Standing(Enum):
    """Where an actor is."""

    RUNNING = auto()
    STOPPED = auto()
    DONE = auto()


class Player:
    """An actor in its thread. It stops before it begins, and at every `turn`."""

    def __init__(self, actor: Actor, changed: threading.Condition) -> None:
        self.actor = actor
        self.name = actor.name
        self.at = ""
        self.pid = 0
        self.error: Exception | None = None
        self.standing = Standing.RUNNING
        self.begun = False
        self._changed = changed
        self._free = False
        self._thread = threading.Thread(target=self._play, name=actor.name, daemon=True)
        self._thread.start()

    def _play(self) -> None:
        _here.player = self
        try:
            connection.ensure_connection()
            self.pid = connection.connection.info.backend_pid
            self.stop("begin")
            self.actor.verb()
        except Exception as error:  # noqa: BLE001 - the scene says which errors are right
            self.error = error
        finally:
            connection.close()
            self._set(Standing.DONE)

    def stop(self, at: str) -> None:
        """Called in the actor's own thread."""
        if self._free:
            return
        with self._changed:
            self.at = at
            self._set(Standing.STOPPED)
            moved = self._changed.wait_for(
                lambda: self.standing is Standing.RUNNING, 2 * PATIENCE_SECONDS
            )
        assert moved, f"{self.name} was forgotten at {at}"

    def go_on(self) -> None:
        """To its next point."""
        self.begun = True
        self._set(Standing.RUNNING)

    def leave(self) -> None:
        """Run to the end without stopping."""
        self._free = True
        if self.standing is Standing.STOPPED:
            self._set(Standing.RUNNING)

    def join(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), f"{self.name} hangs after {self.at}"

    def _set(self, standing: Standing) -> None:
        with self._changed:
            self.standing = standing
            self._changed.notify_all()


class Stage:
    """All actors of one run."""

    def __init__(self, actors: Sequence[Actor]) -> None:
        self._changed = threading.Condition()
        self.players = [Player(actor, self._changed) for actor in actors]

    def who_can(self) -> list[Player]:
        """Those that stand at a point and have something to do there, in their order."""
        stopped = [p for p in self.players if p.standing is Standing.STOPPED]
        return [p for p in stopped if p.begun or p.actor.ready()]

    def settle(self) -> None:
        """Wait until everybody stands at a point, is done, or is held up by somebody who stands."""
        asked = 0
        most = int(PATIENCE_SECONDS / ASK_AGAIN_SECONDS)
        while not self._all_stand(ASK_AGAIN_SECONDS):
            # Asked twice: a lock may go from hand to hand while the first answer is written.
            if self._all_held_up() and self._all_held_up():
                return
            asked += 1
            where = {p.name: (p.standing.name, p.at) for p in self.players}
            assert asked < most, f"neither at a point nor waiting for a lock: {where}"

    def close(self) -> None:
        """Nobody stops any more."""
        for player in self.players:
            player.leave()
        for player in self.players:
            player.join()

    def _running(self) -> list[Player]:
        return [p for p in self.players if p.standing is Standing.RUNNING]

    def _all_stand(self, within_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._running(), within_seconds)

    def _all_held_up(self) -> bool:
        """Whether each one that runs waits for a lock of one that stands, or of such a one."""
        free = {p.pid for p in self._running()}
        holders = {p.pid for p in self.players if p.standing is Standing.STOPPED}
        waits_for = _blocking(sorted(free))
        while held_up := {pid for pid in free if holders & waits_for[pid]}:
            holders |= held_up
            free -= held_up
        return not free


def _blocking(pids: list[int]) -> dict[int, set[int]]:
    """Whom each of these connections waits for, as the database says."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::int[]) AS pid", [pids])
        return {pid: set(blockers) for pid, blockers in cursor.fetchall()}
