# SPDX-License-Identifier: Apache-2.0
"""What an outlet publishes of a change, and when what it publishes is another selection."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.functional.log.memory_log import configured
from tests.functional.log.publishing import change
from tests.functional.storage.writing import kinds
from watcher_sync.log.base import CREATED, DELETED
from watcher_sync.log.selection import OutletSelection
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Kinds


def _selection(declared: Kinds, **options: Any) -> OutletSelection:
    return OutletSelection("bus", configured(**options), declared)


def test_a_kind_that_a_plugin_brings_is_another_selection_only_where_it_is_published() -> None:
    """The log has no entity of the kind, and updates of them would follow."""
    assert _selection(builtin_kinds()).digest != _selection(kinds()).digest
    chosen = {"kinds": ["instance"]}
    assert _selection(builtin_kinds(), **chosen).digest == _selection(kinds(), **chosen).digest


def test_a_project_does_not_see_what_an_entity_is_in_another_one() -> None:
    mine = {"id": "i1", "project_id": "mine", "host": None, "state": "active"}
    other = {"id": "i1", "project_id": "other", "host": "secret", "state": "active"}
    moved = change(
        7,
        before=mine,
        after=other,
        project_id="other",
        previous_seq=5,
        delta={"project_id": ("mine", "other"), "host": (None, "secret")},
    )
    selection = _selection(builtin_kinds(), projects=["mine"])
    left = selection.select(moved)
    assert left is not None
    assert (left.change, left.after, left.project_id, left.previous_seq) == (DELETED, None, "mine", 5)
    assert left.delta == {"project_id": ("mine", None), "state": ("active", None)}
    delta = {name: (new, old) for name, (old, new) in moved.delta.items()}
    back = msgspec.structs.replace(moved, before=other, after=mine, project_id="mine", delta=delta)
    came = selection.select(back)
    assert came is not None
    assert (came.change, came.before, came.project_id, came.previous_seq) == (CREATED, None, "mine", None)
    assert came.delta == {"project_id": (None, "mine"), "state": (None, "active")}
