# SPDX-License-Identifier: Apache-2.0
"""``/v1/engines``: the engines of all groups: what each does, or how it ended.

An engine without a heartbeat for ``[monitoring] stale_after`` is gone. It is listed for an hour, and for as long as no
other engine has a later heartbeat. The same holds for one that was stopped, until its successor starts on its machine.
"""

from __future__ import annotations

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.storage.groups.engines import list_engines

_NUMBER = {"type": "integer", "minimum": 0}

ENGINE: schemas.Schema = {
    "type": "object",
    "required": [
        "group",
        "host",
        "pid",
        "state",
        "since",
        "release",
        "heartbeat_at",
        "seq",
        "lag_seconds",
        "sources",
    ],
    "properties": {
        "group": schemas.STRING | {"description": "Its [engine] group."},
        "host": schemas.STRING | {"description": "The machine on which it runs."},
        "pid": schemas.nullable(_NUMBER),
        "state": {
            "enum": ["leading", "standby", "gone", "stopped"],
            "description": "gone: it has sent no heartbeat for long; stopped: it ended in order.",
        },
        "since": schemas.TIME | {"description": "When the state began; of an engine that is gone, its last heartbeat."},
        "release": schemas.nullable(schemas.STRING) | {"description": "null: a release that does not report it."},
        "heartbeat_at": schemas.TIME,
        "seq": schemas.nullable(_NUMBER) | {"description": "The journal's seq of its model."},
        "lag_seconds": schemas.nullable({"type": "number", "minimum": 0})
        | {"description": "Seconds that its model is behind the journal; null if it is gone or stopped."},
        "sources": {
            "type": "array",
            "items": schemas.STRING,
            "description": "Its enabled sources. It reads them while it leads.",
        },
    },
}

_ENGINES: schemas.Schema = {
    "type": "object",
    "required": ["engines"],
    "properties": {"engines": {"type": "array", "items": ENGINE}},
}


class EngineList:
    """``/v1/engines``: all engines."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @operation(
        summary="List the engines",
        rule=Rule("engines:list", ADMIN_OR_SYSTEM_READER),
        responses={200: Answer(_ENGINES)},
        tag="sources",
    )
    def on_get(self, call: Call) -> None:
        """Answers with the engines by group, the leader of each group first."""
        gone_after = float(self._service.conf.monitoring.stale_after)
        found = list_engines(self._service.store.database, gone_after=gone_after)
        call.answer({"engines": [msgspec.structs.asdict(engine) for engine in found]})
