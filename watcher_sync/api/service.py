# SPDX-License-Identifier: Apache-2.0
"""The database, the kinds and the options that all resources of a process share, and what a request reads of them.

A request reads one consistent state: the present, or with ``as_of`` a copy of the past. The journal has no times when
entities were last seen, so they are null in the past.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa
from oslo_config import cfg

from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.positions import AS_OF, EPOCH_HEADER, PARAMETERS, asked_moment, require_epoch
from watcher_sync.api.http.problems import Problem
from watcher_sync.exceptions import RowRefused
from watcher_sync.extension import ComputedFields, gather
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.read.past.moments import PastMoment
from watcher_sync.read.past.past_models import PastModels, add_seqs
from watcher_sync.storage.database.time_limits import limited
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.groups.removed_sources import Removed, RemovedOfKind, read_removed
from watcher_sync.storage.groups.source_status import list_sources
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.store import Store

_MAX_REMOVED_AGE_SECONDS: Final = 5.0
"""How long a process remembers the removed sources."""


class ReadSource:
    """What an answer reads from: the tables, or a copy of the past."""

    def __init__(
        self,
        connection: sa.Connection,
        seq: int,
        moment: PastMoment | None = None,
        database: sa.Connection | None = None,
    ) -> None:
        """:param connection: has the entities.

        :param moment: the moment of the past; None: the present.
        :param database: the connection to the database, if the entities are in a copy.
        """
        self.connection = connection
        self.seq = seq
        """The last change that the answer shows."""
        self._moment = moment
        self._database = database

    def about(self) -> dict[str, Any]:
        """The members of an answer that say what it shows."""
        moment = self._moment
        return {"seq": self.seq} | ({} if moment is None else {AS_OF: {"seq": moment.seq, "time": moment.time}})

    def add_seqs(self, tables: Tables, kind: Kind, rows: Sequence[dict[str, Any]]) -> None:
        """Complete the seqs of rows that were read."""
        if self._database is not None:
            add_seqs(self._database, tables, kind.name, rows, self.seq)


class Service:
    """The database and the configuration of one worker process. Used by all threads."""

    def __init__(self, conf: cfg.ConfigOpts, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.conf = conf
        self.store = store
        self.kinds: Kinds = store.kinds
        self.tables: Tables = store.tables
        self.max_limit: int = conf.api.max_limit
        self.computed: dict[str, list[ComputedFields]] = {}
        """Kind -> the fields that its entities have in answers only."""
        for name, fields in gather(lambda extension: extension.computed_fields().items()):
            if self.kinds.keys() >= {name, *fields.kinds}:
                self.computed.setdefault(name, []).append(fields)
        self._past = PastModels(store.tables, store.kinds, conf.api.max_past_mib * 1_048_576)
        self._monotonic = monotonic
        self._removed: tuple[float, Removed] | None = None
        """When the removed sources were read, and what they left behind. The last answer wins."""

    @contextlib.contextmanager
    def reading(self, *, short: bool = False) -> Iterator[sa.Connection]:
        """Opens a connection that reads one consistent state of the database.

        :param short: whether the process computes nothing between its statements. Else they may be minutes apart.
        :raises DatabaseUnavailable: when the database does not answer.
        :raises Problem: 400 when the database cannot compare a value of the request.
        """
        try:
            with (
                self.store.connect_stable(short=short) as connection,
                limited(connection, self.conf.database.read_timeout) if short else contextlib.nullcontext(),
            ):
                yield connection
        except RowRefused as exc:
            raise Problem(400, f"The database refuses a value of the request: {exc}") from None

    @contextlib.contextmanager
    def source(self, call: Call, kinds: Collection[str], *, short: bool = False) -> Iterator[ReadSource]:
        """Opens what the request asks for, the present or the past; its headers name the epoch and the moment.

        :param kinds: the names of the kinds that are read.
        :param short: whether the request computes nothing while it reads the present.
        :raises Problem: 410 or 400, see :mod:`~watcher_sync.api.http.positions`.
        """
        is_past = AS_OF in call.query
        admitted = self._past.admitted() if is_past else contextlib.nullcontext()
        with admitted, self.reading(short=short and not is_past) as connection:
            head = read_position(connection, self.tables)
            call.response.set_header(EPOCH_HEADER, head.epoch)
            moment = None
            if not PARAMETERS.keys().isdisjoint(call.query):
                require_epoch(call, head)
                moment = asked_moment(call, connection, self.tables, head)
            if moment is None:
                yield ReadSource(connection, head.seq)
                return
            with (
                self._past.reading(connection, head, moment.seq, kinds) as copy,
                limited(copy, self.conf.database.read_timeout),
            ):
                yield ReadSource(copy, moment.seq, moment, connection)

    def removed_of(self, kind: str) -> RemovedOfKind | None:
        """What removed sources left behind of a kind; None: nothing.

        The sources are read every few seconds, and no entity is read for it.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        known, now = self._removed, self._monotonic()
        if known is None or now - known[0] > _MAX_REMOVED_AGE_SECONDS:
            known = self._removed = now, read_removed(list_sources(self.store.database, removed=True))
        return known[1].of_kind(kind) if known[1].scopes else None
