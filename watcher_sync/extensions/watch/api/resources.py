# SPDX-License-Identifier: Apache-2.0
"""``/apis/v1/{plural}/{id}``: an entity as the resource that events name, for agents of the Axway dialect.

An agent that receives an event reads the resource at ``/apis`` and the link of the event's payload. It asks for
top-level members with ``fields``. Policy and visibility are those of the entity's own path.
"""

from __future__ import annotations

import datetime
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_item import EntityItem
from watcher_sync.api.http import schemas
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Call
from watcher_sync.api.service import Service
from watcher_sync.extensions.watch.api import bodies
from watcher_sync.extensions.watch.model.resources import Describer, text
from watcher_sync.extensions.watch.wire.messages import resource_document
from watcher_sync.model.visibility import Hidden
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import is_of_kind

APIS: Final = "/apis"
"""What agents put before the link of what they read or manage."""


class ResourceItem(EntityItem):
    """``/apis/v1/{plural}/{id}``: one entity as a resource."""

    def __init__(self, collection: Collection) -> None:
        self._describer = Describer(collection.service.kinds)
        super().__init__(collection)

    def parameters(self) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        return bodies.FIELDS

    def schema(self) -> schemas.Schema:
        """The schema of the resource in answers."""
        return bodies.RESOURCE

    def chosen(self, call: Call) -> tuple[str, ...]:
        """No fields of the entity: ``fields`` names members of the resource."""
        return ()

    def selected(self, row: dict[str, Any], call: Call, hidden: Hidden) -> dict[str, Any]:
        """Makes the resource of a row.

        :param hidden: what the caller does not see.
        """
        collection, kind = self.collection, self.collection.kind
        entity = collection.selected(row, None, hidden)
        attributes = {
            name: text(entity[name])
            for name in kind.fields
            if entity.get(name) is not None and name != kind.last_seen_field
        }
        resource = self._describer.resource(kind, row["id"], entity, attributes)
        with collection.service.reading() as connection:
            created, modified = _times(connection, collection.service.tables, kind.name, row["id"])
        created = entity.get("created_at") or created
        return bodies.picked(resource_document(resource, entity, created, modified or created), call)


def _times(
    connection: sa.Connection, tables: Tables, kind: str, entity_id: str
) -> tuple[datetime.datetime | None, datetime.datetime | None]:
    """When an entity was created and changed last; None: the journal no longer has it."""
    t = tables.journal
    was_created = sa.case((t.c.change == "created", t.c.time))
    query = sa.select(sa.func.max(was_created), sa.func.max(t.c.time))
    created, modified = connection.execute(query.where(t.c.entity_id == entity_id, is_of_kind(t, kind))).one()
    return created, modified


def routes(service: Service) -> list[Route]:
    """The resources of all kinds of this process."""
    return [
        (f"{APIS}/v1/{kind.plural}/{{entity_id}}", ResourceItem(Collection(service, kind)))
        for kind in service.kinds.values()
    ]
