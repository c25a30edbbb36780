# SPDX-License-Identifier: Apache-2.0
"""The parameter ``as_of`` of lists, items, search and topology: the model as it was after a seq, or at a time.

The answer is exact, because the journal is gapless. A header names the seq and the time that it shows, and so does the
member ``as_of`` of a list. The next pages show the same seq. Texts are sorted by their code points.

410: the journal no longer has the changes after that moment; the problem has the oldest seq and time that can be shown.
400: the moment is in the future.

The journal has no times when entities were last seen. They are null, and no list of the past is filtered by them.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.api.http import schemas
from watcher_sync.api.http.epochs import EPOCH_HEADER, QUERY, require_epoch
from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.service import Service
from watcher_sync.model.kinds import Kind
from watcher_sync.read.past.moments import MomentAhead, MomentPurged, PastMoment, moment_of
from watcher_sync.read.past.past_models import add_seqs
from watcher_sync.read.past.undoing import read_item_at
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.wire.fields import parse_time

NAME: Final = "as_of"

HEADER: Final = "X-Watcher-Sync-As-Of"
"""The header of answers about the past: ``<seq>; time=<time>``, without the time if it is unknown."""

MOMENT: Final[schemas.Schema] = {
    "type": ["integer", "string"],
    "minimum": 0,
    "maximum": 2**63 - 1,
    "format": "date-time",
}
"""A seq or a time."""

PARAMETERS: Final[dict[str, schemas.Schema]] = {
    NAME: MOMENT
    | {
        "description": "Show the model as it was after the change with this seq, or at this time. 410 with the oldest "
        "seq and time, if the journal no longer has the changes since then."
    },
    "epoch": QUERY,
}
"""The query parameters of lists and items."""

ANSWER: Final[schemas.Schema] = {
    "type": "object",
    "required": ["seq", "time"],
    "properties": {
        "seq": schemas.SEQ | {"description": "The last change that the answer shows."},
        "time": schemas.nullable(schemas.TIME) | {"description": "When it was committed; null: unknown."},
    },
    "description": "What the answer shows, if the request has as_of.",
}
"""The member of a list."""


class ReadSource:
    """What an answer reads from: the tables, or a copy of the past."""

    def __init__(
        self,
        service: Service,
        connection: sa.Connection,
        database: sa.Connection,
        head: Position,
        moment: PastMoment | None,
    ) -> None:
        self.connection = connection
        self.moment = moment
        """None: the present."""
        self.seq = head.seq if moment is None else moment.seq
        """The last change that the answer shows."""
        self._service = service
        self._database = database

    def about(self) -> dict[str, Any]:
        """The members of an answer that say what it shows."""
        moment = self.moment
        return {"seq": self.seq} | ({} if moment is None else {NAME: {"seq": moment.seq, "time": moment.time}})

    def add_seqs(self, kind: Kind, rows: Sequence[dict[str, Any]]) -> None:
        """Complete the seqs of rows that were read."""
        if self.moment is not None:
            add_seqs(self._database, self._service.tables, kind.name, rows, self.moment.seq)


@contextlib.contextmanager
def reading(call: Call, service: Service, kinds: Collection[str], *, short: bool = False) -> Iterator[ReadSource]:
    """Opens what the request asks for, the present or the past; its headers name the epoch and the moment.

    :param kinds: the names of the kinds that are read.
    :param short: whether the request computes nothing while it reads the present.
    :raises Problem: 410 or 400, see the module.
    """
    is_past = NAME in call.query
    admitted = service.past.admitted() if is_past else contextlib.nullcontext()
    with admitted, service.reading(short=short and not is_past) as connection:
        head = read_position(connection, service.tables)
        require_epoch(call, head)
        moment = asked_moment(call, service, connection, head)
        if moment is None:
            yield ReadSource(service, connection, connection, head, None)
            return
        with service.past.reading(connection, head, moment.seq, kinds) as copy:
            yield ReadSource(service, copy, connection, head, moment)


def asked_moment(
    call: Call, service: Service, connection: sa.Connection, head: Position, name: str = NAME
) -> PastMoment | None:
    """The moment that a parameter names; None: the request has none. The parameter becomes the seq.

    :raises Problem: 410 or 400, see the module.
    """
    wanted: int | str | None = call.query.get(name)
    if wanted is None:
        return None
    time = wanted if isinstance(wanted, int) else parse_time(wanted, name)
    moment = _found(service, connection, head, time, name)
    call.query[name] = moment.seq
    if name == NAME:
        known = "" if moment.time is None else f"; time={_rfc3339(moment.time)}"
        call.response.set_header(HEADER, f"{moment.seq}{known}")
    return moment


def read_item(call: Call, service: Service, kind: Kind, entity_id: str) -> dict[str, Any] | None:
    """One entity as it was, with the seq that wrote it; None: it did not exist. The request has the parameter.

    :raises Problem: 410 or 400, see the module.
    """
    with service.reading() as connection:
        head = read_position(connection, service.tables)
        require_epoch(call, head)
        moment = asked_moment(call, service, connection, head)
        assert moment is not None
        return read_item_at(connection, service.tables, kind, entity_id, moment.seq)


def require_known_fields(kind: Kind, names: Iterable[str], call: Call) -> None:
    """:raises Problem: 400 when the request filters or sorts the past by a field that the journal does not have."""
    if NAME in call.query and kind.last_seen_field is not None and kind.last_seen_field in set(names):
        raise bad_request("query", f"/{kind.last_seen_field}", f"{kind.last_seen_field} is unknown with {NAME}")


def _found(
    service: Service, connection: sa.Connection, head: Position, wanted: int | datetime.datetime, name: str
) -> PastMoment:
    try:
        return moment_of(connection, service.tables, head, wanted)
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
