# SPDX-License-Identifier: Apache-2.0
"""The position in the journal that a request names: with ``epoch`` its epoch, with ``as_of`` a moment of the past.

A database that goes back in time gets a new epoch. A seq of the old one may be that of another change. So a client
sends the epoch with its position, and gets 410 with the present epoch if it is another one.

With ``as_of`` an answer shows the model as it was after a seq, or at a time. It is exact, because the journal is
gapless. Texts are sorted by their code points. 410: the journal no longer has the changes after that moment; the
problem has the oldest. 400: the moment is in the future.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.read.past.moments import MomentAhead, MomentPurged, PastMoment, moment_of
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.wire.fields import parse_time

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


AS_OF: Final = "as_of"

AS_OF_HEADER: Final = "X-Watcher-Sync-As-Of"
"""The header of answers about the past: ``<seq>; time=<time>``, without the time if it is unknown."""

MOMENT: Final[schemas.Schema] = {
    "type": ["integer", "string"],
    "minimum": 0,
    "maximum": 2**63 - 1,
    "format": "date-time",
}
"""A seq or a time."""

PARAMETERS: Final[dict[str, schemas.Schema]] = {
    AS_OF: MOMENT
    | {
        "description": "Show the model as it was after the change with this seq, or at this time. 410 with the oldest "
        "seq and time, if the journal no longer has the changes since then."
    },
    "epoch": QUERY,
}
"""The query parameters of lists and items."""

AS_OF_ANSWER: Final[schemas.Schema] = {
    "type": "object",
    "required": ["seq", "time"],
    "properties": {
        "seq": schemas.SEQ | {"description": "The last change that the answer shows."},
        "time": schemas.nullable(schemas.TIME) | {"description": "When it was committed; null: unknown."},
    },
    "description": "What the answer shows, if the request has as_of.",
}
"""The member of a list."""


def present(call: Call, connection: sa.Connection, tables: Tables) -> Position:
    """The end of the journal; the answer names its epoch.

    :raises Problem: 410 when the request is of another epoch.
    """
    head = read_position(connection, tables)
    require_epoch(call, head)
    return head


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


def asked_moment(
    call: Call, connection: sa.Connection, tables: Tables, head: Position, name: str = AS_OF
) -> PastMoment | None:
    """The moment that a parameter names; None: the request has none. The parameter becomes the seq.

    :raises Problem: 410 or 400, see the module.
    """
    wanted: int | str | None = call.query.get(name)
    if wanted is None:
        return None
    time = wanted if isinstance(wanted, int) else parse_time(wanted, name)
    moment = _found(connection, tables, head, time, name)
    call.query[name] = moment.seq
    if name == AS_OF:
        known = "" if moment.time is None else f"; time={_rfc3339(moment.time)}"
        call.response.set_header(AS_OF_HEADER, f"{moment.seq}{known}")
    return moment


def _found(
    connection: sa.Connection, tables: Tables, head: Position, wanted: int | datetime.datetime, name: str
) -> PastMoment:
    try:
        return moment_of(connection, tables, head, wanted)
    except MomentAhead as exc:
        raise bad_request("query", f"/{name}", f"{name} is in the future: {exc}") from None
    except MomentPurged as exc:
        since = "" if exc.time is None else f" and the time {_rfc3339(exc.time)}"
        raise Problem(
            410,
            f"The journal no longer has all changes since then; {name} may be the seq {exc.seq}{since}, or later",
            headers={EPOCH_HEADER: head.epoch},
            oldest_seq=exc.seq,
            oldest_time=exc.time,
            epoch=head.epoch,
        ) from None


def _rfc3339(time: datetime.datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
