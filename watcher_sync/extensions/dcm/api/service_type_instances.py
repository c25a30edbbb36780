# SPDX-License-Identifier: Apache-2.0
"""The writable fields of ``/v1/service_type_instances``: the facets ``spec`` and ``provider``.

A provider's events own other facets, so they never overwrite these fields. The engine
applies the events that were parked because the instance did not exist, within a second of its creation.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.writing import CONDITIONS, WritableItem, WritableKind, WritableList
from watcher_sync.api.http import schemas
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.service import Service
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.extensions.dcm.kinds import ServiceTypeInstance
from watcher_sync.model.kinds import Entity

KIND: Final = "service_type_instance"


class WritableServiceTypeInstance(WritableKind):
    """The facets ``spec`` and ``provider`` of a service type instance."""

    fields: Mapping[str, schemas.Schema] = {
        "service_type": schemas.SHORT_TEXT,
        "instance_name": schemas.nullable(schemas.SHORT_TEXT),
        "spec": schemas.nullable({"type": "object"}),
        "provider_name": schemas.nullable(schemas.SHORT_TEXT),
        "agent_name": schemas.nullable(schemas.SHORT_TEXT),
    }
    required = ("service_type",)
    create_summary = f"Create a {KIND}"
    create_description = ""
    replace_summary = f"Create or replace a {KIND}"
    replace_description = (
        f"A field that the body lacks becomes null. The fields that the provider writes are unchanged. {CONDITIONS}"
    )
    delete_summary = f"Delete a {KIND}"
    delete_description = CONDITIONS

    def values(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all fields of a body but the project; a missing field is None."""
        return {name: body.get(name) for name in self.fields}

    def facets(
        self, values: Mapping[str, Any], old: Entity | None, now: datetime.datetime
    ) -> dict[str, dict[str, Any]]:
        """Returns the facets ``spec`` and ``provider``."""
        provider = {name: values[name] for name in ("provider_name", "agent_name")}
        spec = {name: value for name, value in values.items() if name not in provider} | {"spec_updated_at": now}
        if not isinstance(old, ServiceTypeInstance) or old.created_at is None:
            spec["created_at"] = now
        return {"spec": spec, "provider": provider}


def routes(service: Service, writer: DirectWriter) -> list[Route]:
    """The list and the items."""
    kind = service.kinds.get(KIND)
    if kind is None:
        return []
    instance = WritableServiceTypeInstance()
    instance.quota = service.conf.api.quota_service_type_instances
    collection, path = Collection(service, kind), f"/v1/{kind.plural}"
    return [
        (path, WritableList(collection, writer, instance)),
        (f"{path}/{{entity_id}}", WritableItem(collection, writer, instance)),
    ]
