# SPDX-License-Identifier: Apache-2.0
"""``/v1/provider_bindings/{id}``, with DELETE: the reset of a binding. The next event of its source may bind it again.

The deletion has the version of the binding, so it loses against a newer event.
"""

from __future__ import annotations

import datetime
import uuid

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_item import EntityItem
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import ADMIN
from watcher_sync.api.service import Service
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, absent

KIND = "provider_binding"


class ProviderBindingItem(EntityItem):
    """One binding, with DELETE."""

    def __init__(self, collection: Collection, writer: DirectWriter) -> None:
        super().__init__(collection)
        self._writer = writer
        self.on_delete = operation(
            summary="Reset the binding of a source to a provider",
            rule=Rule(
                f"{collection.kind.plural}:delete", ADMIN, reason="it lets another source speak for the provider"
            ),
            responses={204: Answer(None, "The binding is deleted")},
            errors=(404, 409),
            tag=collection.kind.plural,
        )(self.delete)

    def delete(self, call: Call, entity_id: str) -> None:
        """Deletes the binding."""
        self.collection.require_existing(call, entity_id)
        with self._writer.begin(call.context.actor) as cycle:
            old = cycle.view.get(KIND, entity_id)
            if old is None:
                raise not_found(f"{KIND} {entity_id}")
            now = datetime.datetime.now(datetime.UTC)
            cause = Event(id=str(uuid.uuid4()), type=f"{KIND}.deleted", source="api", subject=entity_id, time=now)
            cycle.write(cause, [Delete(KIND, entity_id, absent(old.versions[0]))])
        call.answer_nothing()


def routes(service: Service, writer: DirectWriter) -> list[Route]:
    """The items; the list is that of every kind."""
    kind = service.kinds.get(KIND)
    if kind is None:
        return []
    return [(f"/v1/{kind.plural}/{{entity_id}}", ProviderBindingItem(Collection(service, kind), writer))]
