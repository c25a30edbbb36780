# SPDX-License-Identifier: Apache-2.0
"""What of the model one caller sees: the entities of its project, without the fields that tell of hosts.

The policy decides once per request, so each row costs a comparison. A journal row has the project of its entity. So
the changes of a deleted entity stay with its project.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from watcher_sync.api.core.request_context import RequestContext
from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.storage.journal import JournalRow

Hidden = Mapping[str, tuple[str, ...]]
"""Field -> dotted paths of the members that a caller does not see; no path: it does not see the field."""

_NOTHING: Hidden = MappingProxyType({})


class Visibility(msgspec.Struct, frozen=True):
    """What one caller sees."""

    project_id: str | None
    """The only project whose entities it sees; None: all."""
    hidden: Mapping[str, Hidden]
    """kind -> what it does not see of an entity."""

    def sees(self, project_id: str | None) -> bool:
        """Whether the caller sees the entities of a project; None: those without a project."""
        return self.project_id is None or project_id == self.project_id

    def shown(self, row: JournalRow) -> JournalRow | None:
        """The change as the caller sees it; None: it sees nothing of it.

        A change that touched nothing but hidden fields is not shown. A change that gave the entity to the caller's
        project has no old values: they belong to the project before. The actor is shown to its own project.
        """
        delta = row.delta
        if not delta and row.change == "updated":
            return None
        hidden = self.hidden.get(row.kind, _NOTHING)
        if not hidden.keys().isdisjoint(delta):
            delta = _seen_delta(delta, hidden)
            if not delta and row.change == "updated":
                return None
        moved = delta.get(PROJECT_FIELD)
        if moved is not None and moved[0] is not None and not self.sees(moved[0]):
            delta = {name: (None, new) for name, (_, new) in delta.items()}
        actor = row.actor
        if actor is not None and not self.sees(actor["project_id"]):
            actor = None
        if delta is row.delta and actor is row.actor:
            return row
        return msgspec.structs.replace(row, delta=delta, actor=actor)


def visibility(context: RequestContext, kinds: Mapping[str, Kind]) -> Visibility:
    """Asks the policy what the caller sees."""
    hidden: dict[str, Hidden] = {}
    if not context.sees_admin_only:
        hidden = {name: kind.admin_only for name, kind in kinds.items() if kind.admin_only}
    return Visibility(context.scope, hidden)


def hidden_from(context: RequestContext, kind: Kind) -> Hidden:
    """What the caller does not see of the entities of a kind."""
    return _NOTHING if not kind.admin_only or context.sees_admin_only else kind.admin_only


def whole(hidden: Hidden) -> list[str]:
    """The fields that are hidden as a whole."""
    return [name for name, members in hidden.items() if not members]


def seen(document: dict[str, Any], hidden: Hidden) -> dict[str, Any]:
    """Returns the fields of a document that the caller sees."""
    if hidden.keys().isdisjoint(document):
        return document
    return {
        name: _without(value, hidden[name]) if name in hidden else value
        for name, value in document.items()
        if hidden.get(name) != ()
    }


def _seen_delta(delta: Mapping[str, tuple[Any, Any]], hidden: Hidden) -> dict[str, tuple[Any, Any]]:
    """The fields of a delta that the caller sees, and in which it sees a difference."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, (old, new) in delta.items():
        members = hidden.get(name)
        if members is None:
            found[name] = (old, new)
        elif members and (was := _without(old, members)) != (now := _without(new, members)):
            found[name] = (was, now)
    return found


def _without(value: Any, members: tuple[str, ...]) -> Any:
    """A copy of an object, or of the objects of a list, without these members."""
    if isinstance(value, list):
        return [_without(each, members) for each in value]
    if not isinstance(value, dict):
        return value
    here = {member for member in members if "." not in member}
    below: dict[str, list[str]] = {}
    for member in members:
        name, dot, rest = member.partition(".")
        if dot:
            below.setdefault(name, []).append(rest)
    return {
        name: _without(each, tuple(below[name])) if name in below else each
        for name, each in value.items()
        if name not in here
    }
