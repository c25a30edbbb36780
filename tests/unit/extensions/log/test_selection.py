# SPDX-License-Identifier: Apache-2.0
"""What an outlet publishes of a change, and when what it publishes is another selection."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.functional.log.memory_log import configured
from tests.functional.log.publishing import change
from tests.functional.storage.writing import kinds
from watcher_sync.extensions.log.base import CREATED, DELETED, LogChange
from watcher_sync.extensions.log.selection import OutletSelection
from watcher_sync.model.kinds import Kinds
from watcher_sync.testing.kinds import builtin_kinds


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


_MINE = {"id": "i1", "project_id": "mine", "state": "active"}
_OTHER = {"id": "i1", "project_id": "other", "state": "active"}


def _selected(before: dict[str, str] | None, after: dict[str, str] | None, actor: str | None) -> LogChange:
    who = {"id": "alice", "project_id": actor, "request_id": "req-1"}
    selected = _selection(builtin_kinds(), projects=["mine"]).select(change(7, before=before, after=after, actor=who))
    assert selected is not None
    return selected


@pytest.mark.parametrize(("before", "after"), [(_MINE, _OTHER), (_OTHER, _MINE)])
@pytest.mark.parametrize("actor", ["other", None])
def test_a_project_does_not_see_who_of_another_one_moved_an_entity(
    before: dict[str, str], after: dict[str, str], actor: str | None
) -> None:
    """The actor would name the project that the entity left or went to."""
    assert _selected(before, after, actor).actor is None
    own = _selected(before, after, "mine").actor
    assert own is not None
    assert own["id"] == "alice"


@pytest.mark.parametrize(("before", "after"), [(None, _MINE), (_MINE, None), (_MINE, _MINE | {"state": "error"})])
def test_a_change_within_a_project_tells_who_did_it_whatever_that_ones_project(
    before: dict[str, str] | None, after: dict[str, str] | None
) -> None:
    told = _selected(before, after, "operators").actor
    assert told is not None
    assert told["id"] == "alice"
