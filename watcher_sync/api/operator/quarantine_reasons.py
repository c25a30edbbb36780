# SPDX-License-Identifier: Apache-2.0
"""``/v1/quarantine_reasons``: the quarantined events counted by reason and source, the latest reason first."""

from __future__ import annotations

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.rules import ADMIN
from watcher_sync.api.service import Service
from watcher_sync.storage.stored.quarantine import Quarantine

_COUNT: schemas.Schema = {"type": "integer", "minimum": 0}

_REASON: schemas.Schema = {
    "type": "object",
    "required": ["reason", "source", "count", "newest_id", "last_received_at"],
    "properties": {
        "reason": schemas.STRING | {"description": "With # for each number, if the events differ in it."},
        "source": schemas.STRING,
        "count": _COUNT,
        "newest_id": _COUNT | {"description": "The id of its latest event."},
        "last_received_at": schemas.TIME,
    },
}

_REASONS: schemas.Schema = {
    "type": "object",
    "required": ["total", "reasons"],
    "properties": {
        "total": _COUNT | {"description": "All events in quarantine, those of further reasons included."},
        "reasons": {"type": "array", "items": _REASON},
    },
}


class QuarantineReasons:
    """``/v1/quarantine_reasons``."""

    def __init__(self, service: Service) -> None:
        self._quarantine = Quarantine(service.store)
        self.on_get = operation(
            summary="Count quarantined events by reason and source",
            rule=Rule("quarantine:list", ADMIN),
            query={
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": service.max_limit,
                    "default": min(100, service.max_limit),
                    "description": "The maximum number of reasons.",
                },
            },
            responses={200: Answer(_REASONS)},
            tag="quarantine",
        )(self.count)

    def count(self, call: Call) -> None:
        """Answers with the latest reasons and the number of all events."""
        total, reasons = self._quarantine.reasons(limit=call.query["limit"])
        call.response.set_header("Cache-Control", "no-store")
        call.answer({"total": total, "reasons": [msgspec.structs.asdict(reason) for reason in reasons]})
