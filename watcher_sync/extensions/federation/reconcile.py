# SPDX-License-Identifier: Apache-2.0
"""The reconciler of followed installations: each source that follows one is a scope.

A run lists the ids of the region, and deletes the entities of the site that the region does not have. It holds the
deletions back that the delete guard refuses, and stores them as drifts. It creates and updates nothing: that is the
source's work.

The source's own listing deletes, too. If the delete guard refuses that, the handler marks an entity, and the scope runs
at once. An entity that was written after the run had begun stays. So does one that a region with a restored database
does not list, for an hour: the region may find it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeVar

import msgspec
from oslo_config import cfg

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Event
from watcher_sync.exceptions import ReconcileError, SourceError
from watcher_sync.extensions.federation.handler.handler import deletion_of, is_of_earlier_epoch
from watcher_sync.extensions.federation.source.listing import Listing, list_ids
from watcher_sync.extensions.federation.source.region_source import followed_sites
from watcher_sync.extensions.federation.source.states import is_loop, read_cursor
from watcher_sync.model.changes import Change, Outcome
from watcher_sync.model.delete_guard import refuses_deletes
from watcher_sync.model.kinds import Entity
from watcher_sync.model.scopes import prefix_of
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, FieldDifference, Reconciler, Report
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.drifts import replace_drifts
from watcher_sync.storage.groups.source_status import record_full_sync
from watcher_sync.storage.table_model import TableModel

_T = TypeVar("_T")

_RESTORED_SECONDS: Final = 3600.0
"""After the region's database went back in time, the region may find entities again that it does not list."""
_PORTION_ENTITIES: Final = 200
"""Entities of one query or transaction; a transaction holds the head of the journal as long."""


class _Base(msgspec.Struct, frozen=True):
    """The model before the listing."""

    generation: int
    ids: dict[str, set[str]]
    """Kind -> ids of the site, with the prefix."""
    position: int
    """The sequence of the region up to which the source is committed; 0 if it is unknown."""
    message: int
    """The same in the stream of its log; 0 if it is unknown, or the source uses the API."""
    epoch_number: int
    """Entities of earlier epochs of the region stay; 0: all may be deleted."""


class FederationReconciler(Reconciler):
    """Deletes what regions do not have."""

    name: ClassVar[str] = "federation"
    options: ClassVar[list[cfg.Opt]] = [
        cfg.FloatOpt(
            "interval",
            default=3600.0,
            min=1.0,
            mutable=True,
            advanced=True,
            help="""
Seconds between two comparisons of a site with its region.

A comparison lists all ids of the region. While the delete guard refuses deletions of a site, ``[reconcile] interval``
holds if it is shorter. A SIGHUP applies a new value.
""",
        ),
    ]

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        context: Context,
        *,
        list_region: Callable[[cfg.ConfigOpts, str, Collection[str], float], Listing] = list_ids,
    ) -> None:
        """:param list_region: lists the ids of the region of a source.

        :raises ConfigError: naming the option that is wrong.
        """
        super().__init__(conf, context)
        policies(conf, context.store.kinds)
        self._sites = followed_sites(conf)
        self._list_region = list_region
        # Guards _refusing.
        self._lock = threading.Lock()
        self._refusing: set[str] = set()
        """Scopes in which the delete guard refused deletions last."""

    def scopes(self) -> Sequence[str]:
        """Return the names of the sources."""
        return list(self._sites)

    def interval(self, scope: str) -> float | None:
        """Return ``[reconciler_federation] interval``, or a shorter one while deletions are refused."""
        own = float(self.conf.reconciler_federation.interval)
        return min(own, float(self.conf.reconcile.interval)) if scope in self._refusing else own

    def wants_run(self, scope: str) -> bool:
        """Return whether the delete guard refused a listing of the source since the last run."""
        doubts, prefix = self.context.doubts, prefix_of(self._sites[scope])
        marked = [kind for kind in self.context.store.kinds if doubts.take(kind, doubts.count(kind), prefix)]
        with self._lock:
            return bool(marked) and scope not in self._refusing

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one site; see :class:`~watcher_sync.reconcile.base.Reconciler`."""
        began = time.monotonic()
        base = self._base(scope)
        listing = self._listing(scope, base, deadline)
        lost = {kind: self._lost(scope, kind, base, listing.ids[kind]) for kind in listing.ids}
        percent = 100.0 if allow_deletes else float(self.conf.reconcile.max_delete_percent)
        refused = {k: len(e) for k, e in lost.items() if refuses_deletes(len(e), len(base.ids[k]), percent)}
        policy = policies(self.conf)
        healed = {k for k in lost if k not in refused and policy.get(k, HEAL) == HEAL}
        number = 0 if allow_deletes else base.epoch_number
        kept = {k: [e for e in lost[k] if k not in healed or self._is_held(k, e, number)] for k in lost}
        deleted = 0
        if not dry_run:
            doomed = [e for k in lost if k in healed for e in lost[k] if not self._is_held(k, e, number)]
            deleted = self._delete(scope, doomed)
            self._record(scope, kept, lost, policy)
            with self._lock:
                (self._refusing.add if refused else self._refusing.discard)(scope)
        return Report(
            scope=scope,
            dry_run=dry_run,
            complete=True,
            differences=tuple(_differences(lost, policy)),
            deleted=deleted,
            refused_deletes=refused,
            sizes={kind: len(base.ids[kind]) for kind in lost},
            requests=listing.requests,
            seconds=time.monotonic() - began,
        )

    def _base(self, scope: str) -> _Base:
        """Return what the model has of the site."""
        store, prefix = self.context.store, prefix_of(self._sites[scope])
        with translated(), store.database.connect() as connection:
            model = TableModel(connection, store.tables, store.kinds)
            found = {kind: model.ids_with_prefix(kind, prefix) for kind in store.kinds}
        cursor = read_cursor(store.cursors().get(scope))
        is_fresh = self.context.now().timestamp() - cursor.since < _RESTORED_SECONDS
        ids = {kind: ids for kind, ids in found.items() if ids}
        number = cursor.number if is_fresh else 0
        return _Base(model.generation, ids, cursor.sequence or 0, cursor.message, number)

    def _listing(self, scope: str, base: _Base, deadline: float) -> Listing:
        """List those kinds of the region that the model has of the site.

        :raises ReconcileError: the listing is not complete.
        """
        if not base.ids:
            return Listing()
        try:
            listing = self._list_region(self.conf, scope, base.ids, deadline)
        except SourceError as exc:
            raise ReconcileError(f"{scope}: the region cannot be listed: {exc}") from None
        if listing.message and base.message:
            if listing.message < base.message:
                raise ReconcileError(
                    f"{scope}: the region's log is at message {listing.message}, and the source at {base.message}"
                )
        elif listing.seq and listing.seq < base.position:
            # Such as a replica of the region's database that lags: it lacks what the stream has brought. An empty
            # journal (0) is that of a new database: the source stores no position of it, and the delete guard decides.
            raise ReconcileError(
                f"{scope}: the region's API is at sequence {listing.seq}, and the source at {base.position}"
            )
        return listing

    def _lost(self, scope: str, kind: str, base: _Base, listed: Collection[str]) -> list[Entity]:
        """Return the entities that the region does not have, and that were not written since the base."""
        store, site = self.context.store, self._sites[scope]
        prefix = prefix_of(site)
        missing = sorted(base.ids[kind] - {prefix + each for each in listed if not is_loop(site, each)})
        found: list[Entity] = []
        with translated(), store.database.connect() as connection:
            model = TableModel(connection, store.tables, store.kinds)
            for portion in _portions(missing):
                model.prefetch(kind, portion)
                entities = [model.get(kind, each) for each in portion]
                found += [e for e in entities if e is not None and self._is_old(kind, e, base)]
        return found

    def _is_old(self, kind: str, entity: Entity, base: _Base) -> bool:
        return entity.seq <= base.generation and self.context.store.kinds[kind].is_declared(entity)

    def _is_held(self, kind: str, entity: Entity, number: int) -> bool:
        """Whether the region may find an entity again: it has not had it since its database went back in time."""
        return is_of_earlier_epoch(self.context.store.kinds[kind], entity, number)

    def _delete(self, scope: str, entities: Sequence[Entity]) -> int:
        """Delete entities that were not written since they were read; return how many.

        The deletion of an aggregate changes the zone of its hosts, but none of their versions.
        """
        kinds = {kind.cls: kind for kind in self.context.store.kinds.values()}

        def write(entity: Entity) -> tuple[Event, Callable[[View], Iterable[Change]]]:
            kind = kinds[type(entity)]

            def changes(view: View) -> Iterator[Change]:
                now = view.get(kind.name, entity.id)
                if now is not None and now.versions == entity.versions:
                    yield deletion_of(kind, now)

            event = Event(
                id=f"{entity.id}/reconciled", type=f"federation.{kind.name}.reconciled", source=scope,
                origin=self._sites[scope], subject=entity.id, time=self.context.now(),
            )  # fmt: skip
            return event, changes

        deleted = 0
        for portion in _portions(entities):
            with self.context.writes.begin() as cycle:
                outcomes = cycle.write_all([write(entity) for entity in portion])
            deleted += outcomes.count(Outcome.APPLIED)
        return deleted

    def _record(
        self, scope: str, left: Mapping[str, Sequence[Entity]], kinds: Collection[str], policy: Mapping[str, str]
    ) -> None:
        """Store what stays in the model as drifts, and the time of a full sync."""
        database, now = self.context.store.database, self.context.now()
        if kinds:
            replace_drifts(database, list(_differences(left, policy)), source=scope, kinds=kinds, now=now)
        record_full_sync(database, scope, now)


def _differences(lost: Mapping[str, Sequence[Entity]], policy: Mapping[str, str]) -> Iterator[FieldDifference]:
    for kind, entities in lost.items():
        for entity in entities:
            name = getattr(entity, "name", None) or entity.id
            yield FieldDifference(
                kind=kind, entity_id=entity.id, field="", model_value=name, policy=policy.get(kind, HEAL)
            )  # fmt: skip


def _portions(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _PORTION_ENTITIES):
        yield items[start : start + _PORTION_ENTITIES]
