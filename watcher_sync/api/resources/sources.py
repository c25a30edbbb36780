# SPDX-License-Identifier: Apache-2.0
"""``/v1/sources``: the state of the sources and inventories; ``/v1/drifts``: the drifts.

A caller who may not see all projects gets the drifts of the entities of its project, without the fields that tell of
hosts. The sources are for administrators and readers of the system.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from watcher_sync.api.core import schemas
from watcher_sync.api.core.operation import Answer, Call, Rule, operation
from watcher_sync.api.core.problems import not_found
from watcher_sync.api.core.request_context import NO_PROJECT
from watcher_sync.api.core.rules import ADMIN_OR_SYSTEM_READER, ALL_PROJECTS, PROJECT_READER
from watcher_sync.api.core.visibility import visibility
from watcher_sync.api.resources.entities import next_page
from watcher_sync.api.service import Service
from watcher_sync.model.visibility import whole
from watcher_sync.storage.drifts import Owned, list_drifts
from watcher_sync.storage.inventories import Inventory, list_inventories
from watcher_sync.storage.source_status import SourceRow, list_sources, trouble_of

_NUMBER = {"type": "integer", "minimum": 0}

SOURCE: schemas.Schema = {
    "type": "object",
    "required": ["source", "state", "fresh", "updated_at"],
    "properties": {
        "source": schemas.STRING,
        "engine_group": schemas.STRING,
        "host": schemas.STRING | {"description": "The machine on which its engine runs."},
        "pid": _NUMBER,
        "state": {"enum": ["starting", "connected", "disconnected", "stopped", "failed"]},
        "detail": schemas.STRING | {"description": "Why it is not connected."},
        "since": schemas.TIME | {"description": "When the present state began."},
        "lag": schemas.nullable(_NUMBER) | {"description": "Events that wait in the transport."},
        "last_event_at": schemas.nullable(schemas.TIME),
        "last_event_age": schemas.nullable({"type": "number"}) | {"description": "Seconds since the last event."},
        "last_full_sync_at": schemas.nullable(schemas.TIME),
        "reconnects": _NUMBER,
        "restarts": _NUMBER,
        "updated_at": schemas.TIME | {"description": "When its engine reported this."},
        "fresh": {"type": "boolean", "description": "Whether its data is up to date, by [monitoring] stale_after."},
        "trouble": schemas.STRING | {"description": "Why it is not fresh; empty if it is."},
    },
}

DRIFT: schemas.Schema = {
    "type": "object",
    "required": ["id", "kind", "entity_id", "field", "model_value", "live_value", "policy", "source", "since"],
    "properties": {
        "id": {"type": "integer"},
        "kind": schemas.STRING,
        "entity_id": schemas.STRING,
        "field": schemas.STRING | {"description": "Empty if the whole entity is missing on one side."},
        "model_value": {},
        "live_value": {},
        "policy": {"enum": ["heal", "observe"]},
        "source": schemas.STRING,
        "since": schemas.TIME,
    },
}


INVENTORY: schemas.Schema = {
    "type": "object",
    "required": ["source", "complete", "complete_since"],
    "properties": {
        "source": schemas.STRING | {"description": "The scope of the comparison, such as nova."},
        "complete": {"type": "boolean", "description": "Whether the model has all that the live system has."},
        "complete_since": schemas.nullable(schemas.TIME) | {"description": "When it became complete."},
        "last_complete_at": schemas.nullable(schemas.TIME)
        | {"description": "When everything was last compared with the live system."},
        "trouble": schemas.STRING | {"description": "Why the last comparison was not complete; empty if it was."},
    },
}

_SOURCES: schemas.Schema = {
    "type": "object",
    "required": ["sources", "inventories"],
    "properties": {
        "sources": {"type": "array", "items": SOURCE},
        "inventories": {"type": "array", "items": INVENTORY},
    },
}


class SourceList:
    """``/v1/sources``: all sources of all engines."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @operation(
        summary="List the sources",
        rule=Rule("sources:list", ADMIN_OR_SYSTEM_READER),
        responses={200: Answer(_SOURCES)},
        tag="sources",
    )
    def on_get(self, call: Call) -> None:
        """Answers with all sources, and with the inventories of the live systems that are compared as a whole."""
        database = self._service.store.database
        rows, inventories = list_sources(database), list_inventories(database)
        call.answer(
            {
                "sources": [_document(self._service, row) for row in rows],
                "inventories": [_inventory(inventory) for inventory in inventories],
            }
        )


class SourceItem:
    """``/v1/sources/{name}``: one source."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @operation(
        summary="Show one source",
        rule=Rule("sources:show", ADMIN_OR_SYSTEM_READER),
        responses={200: Answer(SOURCE)},
        errors=(404,),
        tag="sources",
    )
    def on_get(self, call: Call, name: str) -> None:
        """Answers with the source of this name."""
        for row in list_sources(self._service.store.database):
            if row.source == name:
                call.answer(_document(self._service, row))
                return
        raise not_found(f"source {name}")


class DriftList:
    """``/v1/drifts``: differences between the model and the live systems."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.on_get = operation(
            summary="List the drifts",
            rule=Rule("drifts:list", PROJECT_READER),
            query=schemas.paging(service.max_limit)
            | {
                "marker": schemas.SEQ | {"default": 0, "description": "The page begins after this id."},
                "kind": {"enum": sorted(service.kinds), "description": "Drifts of this kind only."},
                "source": schemas.SHORT_TEXT | {"description": "Drifts found for this source only."},
                "all_projects": {
                    "type": "boolean",
                    "description": "true: the drifts of all projects, or 403; false: those of the caller's project.",
                },
            },
            responses={200: Answer(schemas.collection("drifts", DRIFT))},
            tag="drifts",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page, sorted by id."""
        query = call.query
        limit, wanted = query["limit"], query.get("all_projects")
        sight = visibility(call.context, self._service.kinds)
        if wanted and sight.project_id is not None:
            raise call.context.refusal([ALL_PROJECTS])
        project = sight.project_id if wanted is not False else call.context.project_id or NO_PROJECT
        drifts = list_drifts(
            self._service.store.database,
            after=query["marker"],
            limit=limit + 1,
            kind=query.get("kind"),
            source=query.get("source"),
            owned=None if project is None else Owned(self._service.tables, project),
            hidden={name: whole(hidden) for name, hidden in sight.hidden.items()},
        )
        marker = drifts[limit - 1].id if len(drifts) > limit else None
        call.answer({"drifts": [msgspec.structs.asdict(d) for d in drifts[:limit]], **next_page(call, marker)})


def _inventory(inventory: Inventory) -> dict[str, Any]:
    return {
        "source": inventory.source,
        "complete": inventory.complete_since is not None,
        "complete_since": inventory.complete_since,
        "last_complete_at": inventory.last_complete_at,
        "trouble": inventory.trouble,
    }


def _document(service: Service, row: SourceRow) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    monitoring = service.conf.monitoring
    trouble = trouble_of(row, now, stale_after=monitoring.stale_after, idle_after=monitoring.idle_after)
    last = row.last_event_at
    return {
        **msgspec.structs.asdict(row),
        "last_event_age": max((now - last).total_seconds(), 0.0) if last is not None else None,
        "fresh": not trouble,
        "trouble": trouble,
    }
