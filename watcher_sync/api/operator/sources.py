# SPDX-License-Identifier: Apache-2.0
"""``/v1/sources``: the state of the sources and inventories, for administrators and readers of the system."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.groups.removed_sources import count_entities, read_removed
from watcher_sync.storage.groups.source_status import (
    InventoryRow,
    SourceRow,
    behind_of,
    disconnection_of,
    list_inventories,
    list_sources,
    problem_of,
)

_NUMBER = {"type": "integer", "minimum": 0}

SOURCE: schemas.Schema = {
    "type": "object",
    "required": ["source", "state", "fresh", "updated_at"],
    "properties": {
        "source": schemas.STRING,
        "engine_group": schemas.STRING,
        "host": schemas.STRING | {"description": "The machine on which its engine runs."},
        "pid": _NUMBER,
        "state": {"enum": ["starting", "connected", "disconnected", "stopped", "failed", "removed"]},
        "detail": schemas.STRING | {"description": "Why it is not connected, or what is wrong although it is."},
        "since": schemas.TIME | {"description": "When the present state began."},
        "lag": schemas.nullable(_NUMBER) | {"description": "Events that wait in the transport."},
        "last_event_at": schemas.nullable(schemas.TIME),
        "last_event_age": schemas.nullable({"type": "number"}) | {"description": "Seconds since the last event."},
        "behind_seconds": schemas.nullable({"type": "number", "minimum": 0})
        | {"description": "Seconds by which the model is behind the source; null: unknown."},
        "current_until": schemas.nullable(schemas.TIME)
        | {"description": "The model has all events that were published until then."},
        "last_full_sync_at": schemas.nullable(schemas.TIME),
        "reconnects": _NUMBER,
        "restarts": _NUMBER,
        "updated_at": schemas.TIME | {"description": "When its engine reported this."},
        "fresh": {
            "type": "boolean",
            "description": "Whether it is connected, its data is up to date ([monitoring]), and it has no notes.",
        },
        "notes": schemas.nullable(schemas.STRING)
        | {"description": "What its engine holds back, such as deletions that wait for a confirmation."},
        "problem": schemas.STRING | {"description": "Why it is not fresh; empty if it is."},
        "entities": schemas.nullable(_NUMBER)
        | {"description": "Entities of a removed source that remain; null: it is not removed."},
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
        "problem": schemas.STRING
        | {"description": "Why the last comparison was not complete, and what is hidden; else empty."},
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
        rows, inventories = list_sources(database, removed=True), list_inventories(database)
        now, left = read_clock(database), _left(self._service, rows)
        call.answer(
            {
                "sources": [_document(self._service, row, now, left.get(row.source)) for row in rows],
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
        database = self._service.store.database
        rows = list_sources(database, removed=True)
        for row in rows:
            if row.source == name:
                left = _left(self._service, rows).get(name)
                call.answer(_document(self._service, row, read_clock(database), left))
                return
        raise not_found(f"source {name}")


def _inventory(inventory: InventoryRow) -> dict[str, Any]:
    return {
        "source": inventory.source,
        "complete": inventory.complete_since is not None,
        "complete_since": inventory.complete_since,
        "last_complete_at": inventory.last_complete_at,
        "problem": inventory.problem,
    }


def _left(service: Service, rows: Sequence[SourceRow]) -> dict[str, int]:
    """Removed source -> its entities that remain."""
    removed = read_removed(rows)
    if not removed.scopes:
        return {}
    with service.reading() as connection:
        return {
            source: count_entities(connection, service.tables, service.kinds, removed, source)
            for source in removed.scopes
        }


def _document(service: Service, row: SourceRow, now: datetime.datetime, left: int | None) -> dict[str, Any]:
    monitoring = service.conf.monitoring
    stale_after = monitoring.stale_after
    stale = problem_of(row, now, stale_after=stale_after, idle_after=monitoring.idle_after)
    problem = "; ".join(filter(None, (stale or disconnection_of(row, now), row.notes)))
    if left is not None:
        problem = f"removed from the configuration; {left} entities remain until forget-source deletes them"
    last = row.last_event_at
    return {
        **{name: value for name, value in msgspec.structs.asdict(row).items() if name != "scopes"},
        "last_event_age": max((now - last).total_seconds(), 0.0) if last is not None else None,
        "behind_seconds": behind_of(row, now, stale_after=stale_after),
        "fresh": not problem,
        "problem": problem,
        "entities": left,
    }
