# SPDX-License-Identifier: Apache-2.0
"""Entities of the model, and the graph of what they need."""

from __future__ import annotations

from typing import Any

from watcher_sync_tempest_plugin.services.base import WatcherSyncClient, segment


class EntitiesClient(WatcherSyncClient):
    """``/v1/{plural}`` and ``/v1/graph``. A plural is that of a kind, such as ``instances``."""

    def list_entities(self, plural: str, **query: Any) -> Any:
        """One page of the entities of a kind.

        :param query: filters (``name="web"``) and the other parameters of the list.
        """
        return self.send("GET", plural, query=query)

    def show_entity(self, plural: str, entity_id: str) -> Any:
        """One entity."""
        return self.send("GET", f"{plural}/{segment(entity_id)}")

    def find_entity(self, plural: str, name: str) -> Any:
        """The only entity with this name.

        :raises NotFound: there is none.
        :raises Conflict: several have it.
        """
        return self.send("GET", f"{plural}/{segment(name)}", query={"by": "name"})

    def create_entity(self, plural: str, **fields: Any) -> Any:
        """Register an entity, such as a VNF instance."""
        return self.send("POST", plural, 201, body=fields)

    def delete_entity(self, plural: str, entity_id: str) -> Any:
        """Delete the registration of an entity."""
        return self.send("DELETE", f"{plural}/{segment(entity_id)}", 204)

    def show_graph(self, kind: str, entity_id: str, **query: Any) -> Any:
        """The entities around one, and the edges between them.

        :param kind: of the entity, in the singular.
        """
        return self.send("GET", "graph", query={"root": f"{kind}/{entity_id}", **query})
