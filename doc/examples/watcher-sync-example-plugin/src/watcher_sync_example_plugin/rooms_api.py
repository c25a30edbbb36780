# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/rooms``: what each room draws, from the tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.extension import Api

ROOMS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}


def read_watts(connection: sa.Connection, racks: sa.Table) -> dict[str, int]:
    """Room -> what its racks draw, W."""
    watts = sa.func.coalesce(sa.func.sum(racks.c.watts), 0)
    query = sa.select(racks.c.room, watts).where(racks.c.room.is_not(None)).group_by(racks.c.room)
    return {room: int(total) for room, total in connection.execute(query.order_by(racks.c.room))}


class RoomList:
    """``/v1/rooms``."""

    def __init__(self, api: Api) -> None:
        self._service = api.service

    @operation(
        summary="Show what each room draws",
        rule=Rule("rooms:list", ADMIN_OR_SYSTEM_READER),
        responses={200: Answer({"type": "object", "properties": {"rooms": ROOMS}})},
        tag="rooms",
    )
    def on_get(self, call: Call) -> None:
        """Answers with the watts of each room."""
        with self._service.reading(short=True) as connection:
            call.answer({"rooms": read_watts(connection, self._service.tables.entities["rack"])})
