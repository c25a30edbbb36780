# SPDX-License-Identifier: Apache-2.0
"""The epoch of a position in the journal, in requests and answers.

An installation has an epoch. A database that goes back in time gets a new one. A seq of the old epoch may then be that
of another change. So a client sends the epoch with its position, and gets 410 with the new epoch if it is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.problems import Problem
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.storage.schema.tables import Tables

EPOCH_HEADER: Final = "X-Watcher-Sync-Epoch"
"""The header of answers with the epoch of their positions."""

EPOCH: Final[dict[str, Any]] = {"type": "string", "pattern": "^[0-9a-f]{0,32}$"}
"""The JSON Schema of an epoch."""

QUERY: Final[dict[str, Any]] = {
    **EPOCH,
    "description": "The epoch of the position, as an answer has it. The answer is 410 with the present epoch if the "
    "journal is of another one, because the database went back in time. Without it, the position counts in any epoch.",
}
"""The parameter ``epoch``."""


def read_seq(call: Call, connection: sa.Connection, tables: Tables) -> int:
    """The seq of the last commit; its epoch is in a header of the answer."""
    position = read_position(connection, tables)
    call.response.set_header(EPOCH_HEADER, position.epoch)
    return position.seq


def require_epoch(call: Call, head: Position, headers: Mapping[str, str] | None = None) -> None:
    """Compare the epoch of the request, and name the present one in the answer.

    :param headers: further headers of a 410.
    :raises Problem: 410 with the present epoch.
    """
    call.response.set_header(EPOCH_HEADER, head.epoch)
    wanted: str | None = call.query.get("epoch")
    if wanted and wanted != head.epoch:
        raise other_epoch(head, headers)


def other_epoch(head: Position, headers: Mapping[str, str] | None = None) -> Problem:
    """The answer to a position of another epoch."""
    return Problem(
        410,
        f"The database went back in time: the journal is of the epoch {head.epoch} now and ends at seq {head.seq}; "
        "start from the lists",
        headers={EPOCH_HEADER: head.epoch, **(headers or {})},
        epoch=head.epoch,
    )


def beyond(since: int, head: Position, headers: Mapping[str, str] | None = None) -> Problem:
    """The answer to a position after the end of the journal."""
    return Problem(
        410,
        f"The journal ends at seq {head.seq}, so seq {since} is of another one; start from the lists",
        headers={EPOCH_HEADER: head.epoch, **(headers or {})},
        epoch=head.epoch,
    )
