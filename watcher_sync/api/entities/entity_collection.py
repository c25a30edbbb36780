# SPDX-License-Identifier: Apache-2.0
"""What the resources of one kind share: its rules, its fields, and who may see which entity.

A kind with a ``project_id`` is scoped: a caller sees the entities of its project. For others it is 404. The rule
``admin_only_fields`` decides who sees the fields that tell of hosts. To name a hidden field is 403.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Call, Rule
from watcher_sync.api.http.problems import Problem, not_found
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER, PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.commit.authorisation import API
from watcher_sync.model.kinds import Kind
from watcher_sync.model.visibility import Hidden, seen
from watcher_sync.read import reading
from watcher_sync.read.entity_reader import EntityReader, state_reader

_MAX_SORT_CHARS = 600
"""Characters of a text by which a list can be sorted: a marker has room for them."""

_MAX_READERS = 64
"""Choices of fields of one kind whose reader a process remembers."""


class Collection:
    """The kind, the rules and the fields that the resources of one kind share."""

    def __init__(self, service: Service, kind: Kind) -> None:
        self.service = service
        self.kind = kind
        self.sorts = ("id", *(name for name, field in kind.fields.items() if field.is_within(_MAX_SORT_CHARS)))
        self.computed = service.computed.get(kind.name, [])
        """The fields that no table has."""
        self.kinds_read = (kind.name, *(other for each in self.computed for other in each.kinds))
        """The kinds whose tables have what the answers have."""
        self._schemas = {name: schema for each in self.computed for name, schema in each.schemas.items()}
        self.names = (*kind.public, *self._schemas, "seq")
        self.states = state_reader(service.tables, kind, service.store.database.dialect.name)
        self.reader = functools.lru_cache(maxsize=_MAX_READERS)(self._make_reader)
        """Makes what reads entities for a list."""
        read = PROJECT_READER if kind.is_scoped else ADMIN_OR_SYSTEM_READER
        self.rules = {what: Rule(f"{kind.plural}:{what}", read) for what in ("list", "show", "history")}

    def schema(self) -> schemas.Schema:
        """The schema of the entity in answers."""
        return schemas.entity_schema(self.kind, self._schemas)

    def fields_parameter(self) -> dict[str, schemas.Schema]:
        """The query parameter ``fields`` and its schema."""
        return {
            "fields": {
                "type": "array",
                "items": {"enum": list(self.names)},
                "minItems": 1,
                "uniqueItems": True,
                "description": "The fields of the answer, separated by commas; all by default.",
            }
        }

    def require_project(self, call: Call, project_id: str | None, entity_id: str, *, rule: str | None = None) -> None:
        """Requires that the policy allows the operation on an entity.

        :param project_id: the project of the entity.
        :param rule: the rule of the operation; None: the one of the call.
        :raises Problem: 404 when the caller may not see the entity; 403 when it may see it and do no more.
        """
        if not self.kind.is_scoped or call.context.may_on(rule or call.rule, project_id):
            return
        if not call.context.may_on(self.rules["show"].name, project_id):
            raise not_found(f"{self.kind.name} {entity_id}")
        raise call.context.refusal([rule or call.rule])

    def require_existing(self, call: Call, entity_id: str) -> None:
        """Requires that the entity exists, and that the policy allows the operation on it.

        :raises Problem: 404 when there is no such entity, or the caller may not see it; 403 when it may do no more.
        :raises FollowedEntity: it writes an entity of a followed site.
        """
        self._require_unfollowed(call, entity_id)
        with self.service.reading() as connection:
            owner = reading.read_owner(connection, self.service.tables, self.kind, entity_id)
        if owner is None:
            raise not_found(f"{self.kind.name} {entity_id}")
        self.require_project(call, owner.project_id, entity_id)

    def require_owned(
        self, call: Call, entity_id: str, *, known: bool = False, rule: str | None = None
    ) -> Problem | None:
        """Requires that the id is not that of another project's entity, existing or deleted.

        :param known: whether the caller also needs to be the owner; one who sees all projects does not.
        :param rule: the rule of the operation; None: the one of the call.
        :returns: the problem to answer if the id is that of a deleted entity. The journal no longer has its project,
            which may be another one. None: the caller may learn of the deletion.
        :raises Problem: 404 when the caller may not see the entity; 403 when it may do no more.
        :raises FollowedEntity: the operation writes an entity of a followed site.
        """
        self._require_unfollowed(call, entity_id)
        with self.service.reading() as connection:
            owner = reading.read_owner(connection, self.service.tables, self.kind, entity_id, deleted=True)
        if owner is not None:
            self.require_project(call, owner.project_id, entity_id, rule=rule)
            return None
        if call.context.scope is None:
            return None
        absent = not_found(f"{self.kind.name} {entity_id}")
        if known:
            raise absent
        return absent

    def _require_unfollowed(self, call: Call, entity_id: str) -> None:
        """Require that a request that writes is about no entity of a followed site, whether or not it exists.

        A commit would refuse it, too. A lease has no commit.
        """
        if call.request.method not in ("GET", "HEAD"):
            self.service.store.sites.require_own(API, self.kind.name, entity_id)

    def is_of_removed(self, row: Mapping[str, Any]) -> bool:
        """Whether an entity is that of a removed source.

        :param row: all its fields.
        """
        removed = self.service.removed_of(self.kind.name)
        return removed is not None and removed.has(row)

    def selected(self, row: Mapping[str, Any], names: list[str] | None, hidden: Hidden) -> dict[str, Any]:
        """Returns the chosen fields in declared order.

        :param names: the chosen fields; None: all.
        :param hidden: what the caller does not see.
        """
        return seen({name: row[name] for name in self.names if names is None or name in names}, hidden)

    def _make_reader(self, dialect: str, names: tuple[str, ...], fields: tuple[str, ...]) -> EntityReader:
        """:param names: the members of an entity, in declared order.

        :param fields: what the list needs of an entity beside them, its id, its seq, and what ``computed`` needs.
        """
        public = self.kind.public
        computed = tuple(name for name in names if name not in public)  # the seq, too: of the past it is read apart
        needed = (each.columns for each in self.computed if not each.schemas.keys().isdisjoint(computed))
        return EntityReader(
            self.service.tables,
            self.kind,
            dialect,
            tuple(name for name in names if name in public),
            computed=computed,
            beside=tuple(dict.fromkeys(("id", "seq", *itertools.chain(*needed), *fields))),
        )
