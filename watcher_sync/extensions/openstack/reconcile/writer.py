# SPDX-License-Identifier: Apache-2.0
"""Writes what a listing found, unless an event wrote the entity after the listing was requested.

Each portion is one transaction that locks the journal's head. There an entity whose row is newer than the state that
the comparison used is left alone. The run's own writes do not count: an aggregate changes the zones of its hosts, too.
What is written gets a version of the time of the listing, at least the one just after the stored version. So every
event that happens later is newer, and every event that happened before is older.

The seq in the row decides what is newer than the listing, and not a clock. Clocks decide about events that arrive
later.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet, RowRefused
from watcher_sync.extensions.openstack.cloud.errors import CloudError
from watcher_sync.extensions.openstack.handler.ordering import listed_version
from watcher_sync.extensions.openstack.reconcile.listing import NovaApi
from watcher_sync.extensions.openstack.reconcile.live import Facets
from watcher_sync.extensions.openstack.reconcile.sight import ServerUnseen
from watcher_sync.model.changes import NEVER, Change, Delete, Outcome, Upsert, Version
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.model import Staged
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import FieldDifference
from watcher_sync.reconcile.drift import plain
from watcher_sync.storage.database.database import retried

LOG = logging.getLogger(__name__)

_MAX_ENTITIES: Final = 100
"""Entities of one transaction; the head of the journal is locked as long."""

UNREPORTED: Final = frozenset({"updated_at"})
"""Fields that are corrected and are no drift: notifications bring the time of the write before."""


class NovaDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """One entity that differs between the model and Nova."""

    kind: str
    id: str
    model: Entity | None
    """The entity in the model when the listing was requested."""
    facets: Facets
    """What Nova says, only the fields that differ. Of a new entity all; empty if Nova does not have it."""
    generation: int
    """The journal's seq when the listing was requested."""
    listed_at: datetime.datetime
    """When the listing was requested, aware UTC."""
    is_gone: bool = False
    """Whether Nova does not have it."""

    def differences(self, policy: str) -> Iterable[FieldDifference]:
        """Yield the differences, field by field; one without a field for a whole entity."""
        if self.model is None or self.is_gone:
            name = next((fields["name"] for fields in self.facets.values() if "name" in fields), None)
            yield FieldDifference(
                kind=self.kind,
                entity_id=self.id,
                field="",
                model_value=None if self.model is None else getattr(self.model, "name", None) or self.id,
                live_value=None if self.is_gone else name or self.id,
                policy=policy,
            )
            return
        for fields in self.facets.values():
            for name, value in fields.items():
                if name not in UNREPORTED:
                    yield FieldDifference(
                        kind=self.kind,
                        entity_id=self.id,
                        field=name,
                        model_value=plain(getattr(self.model, name)),
                        live_value=plain(value),
                        policy=policy,
                    )


class NovaWritten(msgspec.Struct, kw_only=True):
    """The result of the writes."""

    written: int = 0
    deleted: int = 0
    refused: dict[str, str] = {}
    """``<kind> <id>`` -> why the model or the database refuses to store it."""
    left: list[NovaDivergence] = []
    """Not written, because an event or another writer wrote the entity meanwhile."""
    buried: list[NovaDivergence] = []
    """Not written, because the model has them as deleted for good."""


class OwnWrites:
    """What one run wrote. A row without a foreign write since the listing is as the listing found it.

    For one thread.
    """

    def __init__(self) -> None:
        # (kind, id) -> seq of the row before the first of our writes without another writer's between them, and after
        # the last one.
        self._seqs: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, staged: Iterable[Staged]) -> None:
        """Record what a transaction wrote."""
        for one in staged:
            if one.base is not None and one.entity is not None:
                key = (one.kind.name, one.id)
                first, last = self._seqs.get(key, (one.base.seq, one.base.seq))
                self._seqs[key] = (first if last == one.base.seq else one.base.seq, one.entity.seq)

    def seq(self, what: NovaDivergence, entity: Entity) -> int:
        """Return the seq of what another writer wrote last to an entity."""
        first, last = self._seqs.get((what.kind, what.id), (entity.seq, entity.seq))
        return first if last == entity.seq else entity.seq


class InventoryWriter:
    """Writes divergences through the commit cycle. For any thread; it has no state."""

    def __init__(self, writes: DirectWriter, kinds: Kinds, source: str) -> None:
        """:param source: recorded as the source of the changes."""
        self._writes = writes
        self._kinds = kinds
        self._source = source

    def write(self, found: Sequence[NovaDivergence], own: OwnWrites | None = None) -> NovaWritten:
        """Write divergences, in one transaction per 100 entities.

        :param own: what the run wrote before; grows.
        :raises DatabaseUnavailable: the database is unavailable; earlier transactions are written.
        """
        own = own if own is not None else OwnWrites()
        result = NovaWritten()
        found = sorted(found, key=_host)  # so that a transaction concerns few hosts
        for begin in range(0, len(found), _MAX_ENTITIES):
            portion = found[begin : begin + _MAX_ENTITIES]
            for what, outcome in zip(portion, self._write_portion(portion, result.refused, own), strict=True):
                if outcome is Outcome.APPLIED:
                    result.written += not what.is_gone
                    result.deleted += what.is_gone
                elif outcome is Outcome.STALE and what.model is None:
                    result.buried.append(what)
                elif outcome is not Outcome.QUARANTINED:
                    result.left.append(what)
        return result

    @retried
    def _write_portion(
        self, portion: Sequence[NovaDivergence], refused: dict[str, str], own: OwnWrites
    ) -> list[Outcome]:
        """Write a portion; if the model or the database refuses a value, bisect it until the entity is found."""
        try:
            with self._writes.begin() as cycle:
                head = cycle.generation
                for kind in {what.kind for what in portion}:
                    cycle.model.prefetch(kind, [what.id for what in portion if what.kind == kind])
                outcomes = cycle.write_all(
                    [
                        (self._event(what), self._maker(what, head, cycle.model.tombstone(what.kind, what.id), own))
                        for what in portion
                    ]
                )
            own.add(cycle.staged)
            return outcomes
        except (InvalidEvent, NotYet, RowRefused) as exc:
            if len(portion) == 1:
                refused[f"{portion[0].kind} {portion[0].id}"] = str(exc)
                return [Outcome.QUARANTINED]
            middle = len(portion) // 2
            halves = portion[:middle], portion[middle:]
            return [outcome for half in halves for outcome in self._write_portion(half, refused, own)]

    @retried
    def restore(self, what: NovaDivergence) -> bool:
        """Write an entity that the model has as deleted for good, although Nova has it.

        :returns: whether it was written; not if an event wrote it meanwhile.
        """
        kind = self._kinds[what.kind]
        with self._writes.begin() as cycle:
            tombstone = cycle.model.tombstone(what.kind, what.id)
            if cycle.view.get(what.kind, what.id) is not None or tombstone is None or tombstone.seq > what.generation:
                return False
            values = {name: value for fields in what.facets.values() for name, value in fields.items()}
            version = _listed_version(what)
            versions = tuple(
                max(version, after(old)) if facet in what.facets else NEVER
                for facet, old in zip(kind.facets, tombstone.versions, strict=True)
            )
            cycle.repair(self._event(what), what.kind, what.id, values, versions)
            # A commit removes only tombstones of kinds whose ids are used again.
            t = cycle.store.tables.tombstones
            with cycle.store.connect() as connection:
                connection.execute(sa.delete(t).where(t.c.kind == what.kind, t.c.id == what.id))
        return True

    def _event(self, what: NovaDivergence) -> Event:
        return Event(
            id=f"{what.id}/reconciled", type=f"{what.kind}.reconciled", source=self._source, time=what.listed_at
        )

    def _maker(
        self, what: NovaDivergence, head: int, tombstone: Tombstone | None, own: OwnWrites
    ) -> Callable[[View], Iterable[Change]]:
        """Return the function that makes the changes of an entity inside the transaction.

        :param head: the journal's seq before the transaction. Newer rows are of the transaction itself.
        :param tombstone: of the entity, before the transaction.
        """
        is_deleted_meanwhile = tombstone is not None and tombstone.seq > what.generation

        def make(view: View) -> Iterable[Change]:
            entity = view.get(what.kind, what.id)
            if entity is None:
                # What only differed is not enough to make it again.
                if is_deleted_meanwhile or what.model is not None:
                    return ()
            elif entity.seq <= head and own.seq(what, entity) > what.generation:
                return ()
            if what.is_gone:
                return (Delete(what.kind, what.id, self._version(what, entity, None)),)
            return (Upsert(what.kind, what.id, self._version(what, entity, what.facets), what.facets),)

        return make

    def _version(self, what: NovaDivergence, entity: Entity | None, facets: Mapping[str, Any] | None) -> Version:
        """Return the version of a write.

        :param facets: those that are written; None: the entity is deleted.
        """
        version = _listed_version(what)
        if entity is None:
            return version
        kind = self._kinds[what.kind]
        if facets is None:
            written = entity.versions[kind.anchor_position] if kind.ids_reused else max(entity.versions)
        else:
            written = max(entity.versions[kind.facet_position[facet]] for facet in facets)
        return max(version, after(written)) if written != NEVER else version


def _host(what: NovaDivergence) -> str:
    placement = what.facets.get("placement", {})
    return str(placement.get("host") or getattr(what.model, "host", None) or "")


def _listed_version(what: NovaDivergence) -> Version:
    """Return the version of what a listing says: newer than events before it, older than events after it."""
    values = {name: value for fields in what.facets.values() for name, value in fields.items()}
    updated_at = values.get("updated_at") or getattr(what.model, "updated_at", None)
    state = values.get("state") or getattr(what.model, "state", None)
    return listed_version(updated_at, what.listed_at, state=state if what.kind == "instance" else None)


def after(written: Version) -> Version:
    """Return the version just after a written one."""
    found = _COUNTED.fullmatch(written)
    if found is None:
        return Version(f"{written}~r{1:09d}")
    return Version(f"{found[1]}~r{int(found[2]) + 1:09d}")


_COUNTED: Final = re.compile(r"(.*)~r(\d{9})")
"""A version that :func:`after` made."""


MAX_RESTORED: Final = 100
"""Servers that one run asks for."""


class Restored(msgspec.Struct, kw_only=True):
    """The result of one run."""

    written: int = 0
    refused: dict[str, str] = {}
    """``<kind> <id>`` -> why the model or the database refuses to store it."""


class Restorer:
    """Restores servers that the model has as deleted for good, although Nova lists them. For one thread at a time.

    Each is confirmed by a GET of the server, so a run asks for a limited number. The rest waits for the next run.
    Servers that an earlier run asked for come last, so one that cannot be restored does not delay the others.
    """

    def __init__(self, writer: InventoryWriter) -> None:
        self._writer = writer
        self._asked: set[str] = set()
        """Servers that earlier runs asked for, and that were not restored."""

    def restore(self, buried: Sequence[NovaDivergence], api: NovaApi) -> Restored:
        """Restore servers, as far as Nova still has them.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        result = Restored()
        self._asked &= {what.id for what in buried}
        due = sorted(buried, key=lambda what: what.id in self._asked)
        for what in due[:MAX_RESTORED]:
            try:
                server = api.server(what.id)
            except ServerUnseen:  # it may be deleted
                server = None
            except CloudError as exc:
                LOG.warning("instance %s: it is unknown whether it was deleted: %s", what.id, exc)
                return result
            if server is None or server.is_deleted or not self._write(what, result):
                self._asked.add(what.id)
        if len(due) > MAX_RESTORED:
            LOG.info(
                "%d instances that exist are deleted in the model: the next run restores them", len(due) - MAX_RESTORED
            )
        return result

    def _write(self, what: NovaDivergence, result: Restored) -> bool:
        """Write one server; returns whether it was written."""
        try:
            if not self._writer.restore(what):
                return False
        except (InvalidEvent, RowRefused) as exc:
            result.refused[f"{what.kind} {what.id}"] = str(exc)
            return False
        LOG.warning("instance %s was taken for deleted, but exists", what.id)
        result.written += 1
        return True
