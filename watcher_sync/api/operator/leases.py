# SPDX-License-Identifier: Apache-2.0
"""``/v1/leases``: the operation leases that are held now, of all VNF instances.

A caller who may not see all projects gets the leases of the instances of its project.
"""

from __future__ import annotations

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.operations import Operations

LEASE: schemas.Schema = {
    "type": "object",
    "required": ["kind", "entity_id", "id", "operation", "holder", "token", "since", "heartbeat_at", "expires_at"],
    "properties": {
        "kind": schemas.STRING,
        "entity_id": schemas.STRING,
        "id": schemas.STRING | {"description": "The id of the operation."},
        "operation": schemas.STRING,
        "holder": schemas.STRING,
        "token": {"type": "integer", "minimum": 1, "description": "The fencing token."},
        "since": schemas.TIME,
        "heartbeat_at": schemas.TIME,
        "expires_at": schemas.TIME | {"description": "When it expires unless a heartbeat extends it."},
    },
}


class LeaseList:
    """``/v1/leases``."""

    def __init__(self, service: Service, operations: Operations) -> None:
        plural = service.kinds[operations.kind].plural
        self._operations = operations
        self.on_get = operation(
            summary="List the operation leases that are held now",
            rule=Rule(f"{plural}:operations", PROJECT_READER),
            query=schemas.paging(service.max_limit),
            responses={200: Answer(schemas.collection("leases", LEASE))},
            tag=plural,
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page, sorted by id."""
        limit: int = call.query["limit"]
        rows = self._operations.all_running(call.context.scope, after=call.query.get("marker", ""), limit=limit + 1)
        marker = rows[limit - 1].id if len(rows) > limit else None
        call.response.set_header("Cache-Control", "no-store")
        leases = [{name: getattr(row, name) for name in LEASE["required"]} for row in rows[:limit]]
        call.answer({"leases": leases, **call.next_page(marker)})
