"""The demo's processes, as a drill may strike them: no process that is not the demo's own."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from reconciliation.drills.place import Demo


def own_process(demo: Demo, pid: int) -> psutil.Process | None:
    """The Python process of this demo that has a pid; None when there is none, or a stranger."""
    try:
        process = psutil.Process(pid)
        family = {pid, *(parent.pid for parent in process.parents())}
        is_ours = "python" in process.name() and family & set(demo.programs().values())
    except psutil.NoSuchProcess:
        return None
    return process if is_ours else None


def workers_of(demo: Demo, program: str) -> Iterator[psutil.Process]:
    """The processes that a program of the demo has started."""
    parent = own_process(demo, demo.programs()[program])
    if parent is not None:
        yield from parent.children()


def kill_own(demo: Demo, pid: int) -> bool:
    """kill -9, after making sure that this is a process of this demo; False when it is not."""
    process = own_process(demo, pid)
    if process is None:
        return False
    try:
        process.kill()
        psutil.wait_procs([process], timeout=1)
    except psutil.NoSuchProcess:
        return False
    return True
