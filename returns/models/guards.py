"""Database triggers that say no, made from the tables in `returns.states`.

They hold for raw SQL as well. `pgtrigger.ignore` belongs in migrations only.
"""

from __future__ import annotations

from collections.abc import Iterable

import pgtrigger

from returns.states import Edge, pairs


def append_only() -> list[pgtrigger.Trigger]:
    """Rows are written once: no UPDATE, no DELETE."""
    return [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]


def kept() -> pgtrigger.Trigger:
    """Rows are never deleted."""
    return pgtrigger.Protect(name="kept", operation=pgtrigger.Delete)


def edges_only(edges: Iterable[Edge], field: str = "state") -> pgtrigger.Trigger:
    """The state moves along the given edges and no others."""
    return pgtrigger.FSM(name="edges_only", field=field, transitions=pairs(edges))


def born(state: str, field: str = "state") -> pgtrigger.Trigger:
    """A row starts its life in this state."""
    return pgtrigger.Protect(
        name="born_as_" + state,
        operation=pgtrigger.Insert,
        condition=~pgtrigger.Q(**{f"new__{field}": state}),
    )


def fixed(*fields: str) -> pgtrigger.Trigger:
    """These fields never change after the INSERT."""
    return pgtrigger.ReadOnly(name="fixed", fields=list(fields))


def fixed_once_set(field: str) -> pgtrigger.Trigger:
    """This field may be set once; after that it never changes."""
    changed = pgtrigger.Q(**{f"old__{field}__isnull": False}) & pgtrigger.Q(
        **{f"old__{field}__df": pgtrigger.F(f"new__{field}")}
    )
    return pgtrigger.Protect(
        name=f"{field}_fixed_once_set", operation=pgtrigger.Update, condition=changed
    )
