# SPDX-License-Identifier: Apache-2.0
"""What of the model one caller sees: the entities of its project, without the fields that tell of hosts.

The policy decides once per request, so each row costs a comparison. A journal row has the project of its entity. So
the changes of a deleted entity stay with its project.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.rules import ALL_PROJECTS
from watcher_sync.model.kinds import PROJECT_FIELD, Kinds
from watcher_sync.model.visibility import Hidden, decoded, hidden_of, seen_delta
from watcher_sync.storage.writing.journal import JournalRow


class Visibility(msgspec.Struct, frozen=True):
    """What one caller sees."""

    project_id: str | None
    """The only project whose entities it sees; None: all."""
    hidden: Mapping[str, Hidden]
    """kind -> what it does not see of an entity."""
    unowned: Mapping[str, Hidden]
    """kind -> what it does not see of an entity that is not of its project."""

    def sees(self, project_id: str | None) -> bool:
        """Whether the caller sees the entities of a project; None: those without a project."""
        return self.project_id is None or project_id == self.project_id

    def shown(self, row: JournalRow) -> JournalRow | None:
        """The change as the caller sees it; None: it sees nothing of it.

        A change that touched nothing but hidden fields is not shown. A change that gave the entity to the caller's
        project has no old values: they belong to the project before. The actor is shown to its own project. Of a pod
        that belonged to no project at that time, the caller sees name and phase.
        """
        delta = row.delta
        if not delta and row.change == "updated":
            return None
        hidden = hidden_of(row.kind, row.project_id, self.project_id, self.hidden, self.unowned)
        if not hidden.keys().isdisjoint(delta):
            delta = seen_delta(delta, hidden)
            if not delta and row.change == "updated":
                return None
        moved = delta.get(PROJECT_FIELD)
        before = None if moved is None else decoded(moved[0])
        had_owner = moved is not None and (before is not None or row.kind in self.unowned)
        if had_owner and not self.sees(before):
            delta = {name: (None, new) for name, (_, new) in delta.items()}
        actor = row.actor
        if actor is not None and not self.sees(actor["project_id"]):
            actor = None
        if delta is row.delta and actor is row.actor:
            return row
        return msgspec.structs.replace(row, delta=delta, actor=actor)


BY_ACTOR: Final[schemas.Schema] = schemas.SHORT_TEXT | {
    "description": "Changes by the actor with this id only, as far as the caller sees who caused them."
}
"""The query parameter ``actor``."""


def is_by(actor: str | None, shown: JournalRow) -> bool:
    """Whether a change that the caller sees is by an actor.

    :param actor: its id; None: any, or unknown.
    :param shown: as :meth:`Visibility.shown` has it. So the filter says nothing of actors that are hidden.
    """
    return actor is None or (shown.actor is not None and shown.actor["id"] == actor)


def visibility(context: RequestContext, kinds: Kinds, all_projects: bool | None = None) -> Visibility:
    """Asks the policy what the caller sees.

    :param all_projects: what the caller asks for; None: all that it sees.
    :raises Problem: 401 or 403 when it asks for all projects and does not see all.
    """
    hidden: dict[str, Hidden] = {}
    if not context.sees_admin_only:
        hidden = {name: kind.admin_only for name, kind in kinds.items() if kind.admin_only}
    return Visibility(context.scope_of(all_projects), hidden, kinds.hidden_unowned)


def sight_of(call: Call, kinds: Kinds) -> Visibility:
    """What the caller sees, restricted to what it asks for with ``all_projects`` and ``kind``.

    :raises Problem: 403 when it asks for more than it may see.
    """
    kind = kinds.get(call.query.get("kind", ""))
    if kind is not None and not kind.is_scoped and call.context.scope is not None:
        raise call.context.refusal([ALL_PROJECTS])
    return visibility(call.context, kinds, call.query.get("all_projects"))
