# SPDX-License-Identifier: Apache-2.0
"""The reconciler ``nova``: one cloud, in two scopes.

``nova``          Everything, each ``[reconcile_nova] interval``
``nova-changes``  The servers that Nova wrote since the last listing, each ``changes_interval``, and soon the servers,
                  hosts and aggregates whose last events may have come in another order than they happened

A run compares and writes what notifications lost::

    compare  ->  wait for events in flight  ->  delete guard  ->  write hosts, aggregates, servers  ->  record drifts

The cloud has one breaker per scope, and one run at a time. A run of changes has nothing to do while a complete run
continues. The first complete run makes the inventory complete, which other processes read from its table.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.conf import reconcile_nova
from watcher_sync.extensions.openstack.liveness.writer import LivenessWriter
from watcher_sync.extensions.openstack.reconcile.compare import CloudComparer
from watcher_sync.extensions.openstack.reconcile.comparison import AGGREGATE, INSTANCE, NODE, Base, NovaComparison
from watcher_sync.extensions.openstack.reconcile.listing import NovaApi
from watcher_sync.extensions.openstack.reconcile.live import differing
from watcher_sync.extensions.openstack.reconcile.writer import (
    InventoryWriter,
    NovaDivergence,
    NovaWritten,
    OwnWrites,
    Restorer,
)
from watcher_sync.model.model import Snapshot
from watcher_sync.reconcile.base import Context, FieldDifference, Reconciler, Report
from watcher_sync.storage.drifts import list_drifts, replace_drifts
from watcher_sync.storage.groups.source_status import (
    declare_inventory,
    forget_inventory,
    read_inventory,
    write_inventory,
)
from watcher_sync.storage.table_model import TableView

LOG = logging.getLogger(__name__)

SCOPE: Final = "nova"
CHANGES: Final = "nova-changes"

INCOMPLETE: Final = "inventory incomplete"
"""How the reason begins as long as no complete run has ended."""

_CONFIRM_SECONDS: Final = 1.0
"""Seconds that a difference has to last before it counts: the event of a change arrives within them."""
_OVERLAP_SECONDS: Final = 60.0
"""How much earlier than the last listing the listing of changes begins, for clocks of Nova's that differ."""
_DOUBT_SECONDS: Final = 5.0
"""Seconds until a marked entity is compared."""
_MAX_DOUBTS: Final = 100
"""Marked entities of each kind that one run compares."""
_MAX_DRIFTS: Final = 100_000
_ORDER: Final = (NODE, AGGREGATE, INSTANCE)
"""Hosts before the servers on them."""


class NovaReconciler(Reconciler):
    """Compares one cloud with the model, and repairs the model."""

    name: ClassVar[str] = "nova"

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        context: Context,
        *,
        cloud: OpenStackCloud | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """:param cloud: the account; None: that of ``[reconcile_nova]``.

        :raises ConfigError: naming the option that is wrong.
        """
        super().__init__(conf, context)
        self._now = context.now
        self._wait = wait
        policies(conf, context.store.kinds)
        self._is_enabled = bool(conf[reconcile_nova.GROUP].enabled)
        if self._is_enabled:
            self._require_no_sites()
        self._cloud = cloud if cloud is not None or not self._is_enabled else OpenStackCloud(conf)
        self._writer = InventoryWriter(context.writes, context.store.kinds, SCOPE)
        self._restorers = {scope: Restorer(self._writer) for scope in (SCOPE, CHANGES)}
        # Held by a run. A complete run waits for it, a run of changes does not.
        self._lock = threading.Lock()
        self._listed_changes: float | None = None
        """When the last listing of changes began, by the monotonic clock; None if changes are due."""

    def _require_no_sites(self) -> None:
        """:raises ConfigError: a source follows a site, whose hosts and servers the comparison would delete."""
        for source, scopes in self.context.source_scopes().items():
            if any(scope.site for scope in scopes):
                raise ConfigError(
                    f"[source_{source}] driver: [reconcile_nova] compares the whole model with one cloud, and would"
                    " delete the hosts and servers of other sites; configure it in the region"
                )

    def scopes(self) -> Sequence[str]:
        """Return the two scopes, or none if ``enabled`` is false."""
        return (SCOPE, CHANGES) if self._is_enabled else ()

    def interval(self, scope: str) -> float | None:
        """Return the seconds between two runs of a scope; fewer while entities are marked."""
        options = self.conf[reconcile_nova.GROUP]
        if scope == SCOPE:
            return float(options.interval)
        changes = float(options.changes_interval)
        is_doubtful = any(self.context.doubts.count(kind) for kind in _ORDER)
        return min(changes, _DOUBT_SECONDS) if is_doubtful else changes

    def timeout(self, scope: str) -> float | None:
        """Return the seconds after which a run counts as failed."""
        return float(self.conf[reconcile_nova.GROUP].run_timeout)

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one scope; see :class:`~watcher_sync.reconcile.base.Reconciler`."""
        assert self._cloud is not None
        waits = max(0.0, deadline - time.monotonic()) if scope == SCOPE else 0.0
        if not self._lock.acquire(timeout=waits):
            if scope == SCOPE:
                raise ReconcileError("the run before it has not ended")
            return Report(scope=scope, dry_run=dry_run, complete=True)
        try:
            api = NovaApi(self._cloud.client(deadline))
            run = _Run(self, api, scope=scope, dry_run=dry_run, allow_deletes=allow_deletes)
            return self._run_all(run, dry_run) if scope == SCOPE else self._run_changes(run)
        finally:
            self._lock.release()

    # Complete runs

    def _run_all(self, run: _Run, dry_run: bool) -> Report:
        began = self._now()
        try:
            report = run.report(run.comparer.compare())
        except ReconcileError as exc:
            if not dry_run:
                self._record(began, str(exc))
            raise
        if not dry_run:
            unknown = "; ".join(f"{what} ({why})" for what, why in sorted(report.unknown.items()))
            self._record(began + run.api.clock_skew, report.problem, unknown)
        return report

    def _record(self, began: datetime.datetime, problem: str, unknown: str = "") -> None:
        """Store how a complete run ended, and what Nova does not show.

        :param began: by Nova's clock, which the listing of changes compares with.
        """
        database, now = self.context.store.database, self._now()
        old = declare_inventory(database, SCOPE, now)
        new = msgspec.structs.replace(
            old.after(problem, now),
            changes_since=old.changes_since if problem else began,
            problem="; ".join(filter(None, (problem, unknown and f"unknown: {unknown}"))),
        )
        write_inventory(database, new)
        if unknown and old.problem != new.problem:
            LOG.warning("Nova does not show everything of the inventory of %s: %s", SCOPE, unknown)
        if old.complete_since is None and new.complete_since is not None:
            LOG.info("The inventory of %s is complete", SCOPE)

    # Changes

    def _run_changes(self, run: _Run) -> Report:
        """Compare what Nova changed, if that is due, and the marked entities. A marked host means all hosts."""
        comparison = NovaComparison()
        since = None if run.dry_run else self._changes_due()
        began = self._now()
        limit = 0 if run.dry_run else _MAX_DOUBTS
        marked = {kind: self.context.doubts.take(kind, limit) for kind in _ORDER}
        compared: set[str] = set()
        try:
            if marked[NODE] or marked[AGGREGATE]:
                comparison = run.comparer.compare_hosts()
            if since is not None:
                comparison = run.comparer.compare_changes(since)
            if asked := [one for one in marked[INSTANCE] if one not in comparison.looked_at]:
                comparison = run.comparer.compare_some(asked)
            report = run.report(comparison)
            compared = comparison.complete | ({INSTANCE} if "servers" not in comparison.failures else set())
        finally:
            if INSTANCE not in compared:
                self._listed_changes = None
            for kind in marked.keys() - compared:
                for one in marked[kind]:
                    self.context.doubts.add(kind, one)
        if INSTANCE in compared and since is not None:
            self._note_changes(began + run.api.clock_skew)
        return report

    def _changes_due(self) -> datetime.datetime | None:
        """Return the time from which on changes are to be listed now; None if they are not due."""
        last, now = self._listed_changes, time.monotonic()
        if last is not None and now - last < float(self.conf[reconcile_nova.GROUP].changes_interval):
            return None
        inventory = read_inventory(self.context.store.database, SCOPE)
        if inventory is None or inventory.changes_since is None or inventory.complete_since is None:
            return None
        self._listed_changes = now
        return inventory.changes_since - datetime.timedelta(seconds=_OVERLAP_SECONDS)

    def _note_changes(self, began: datetime.datetime) -> None:
        """Store that all changes before this time of Nova's clock are known."""
        database = self.context.store.database
        inventory = read_inventory(database, SCOPE)
        if inventory is not None:
            changed = msgspec.structs.replace(inventory, changes_since=began, updated_at=self._now())
            write_inventory(database, changed)

    # The inventory

    @property
    def has_inventory(self) -> bool:
        """Whether it compares anything."""
        return self._is_enabled

    def inventory_problem(self) -> str | None:
        """Return why the inventory is incomplete; empty if it is complete, None if nothing is compared.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        database = self.context.store.database
        if not self._is_enabled:
            forget_inventory(database, SCOPE)
            return None
        inventory = declare_inventory(database, SCOPE, self._now())
        if inventory.complete_since is not None:
            return ""
        return f"{INCOMPLETE} of {SCOPE}" + (f": {inventory.problem}" if inventory.problem else "")


class _Run:
    """One run: compares, writes and records."""

    def __init__(
        self, reconciler: NovaReconciler, api: NovaApi, *, scope: str, dry_run: bool, allow_deletes: bool
    ) -> None:
        self._reconciler = reconciler
        self._context = reconciler.context
        self.api = api
        self._scope = scope
        self.dry_run = dry_run
        self._began = time.monotonic()
        conf = reconciler.conf
        self._policy = policies(conf)
        percent = 100.0 if allow_deletes else float(conf.reconcile.max_delete_percent)
        self._loaded: Snapshot | None = None
        self.comparer = CloudComparer(conf, api, self.base, max_delete_percent=percent)

    def base(self) -> Base:
        """The state of the model now. A process without a replica loads it once."""
        view = self._context.view()
        if not isinstance(view, Snapshot):
            if self._loaded is None:
                self._loaded = self._context.store.load().snapshot()
            view = self._loaded
        return Base(view, self._reconciler._now())

    def report(self, comparison: NovaComparison) -> Report:
        """Write what differs, record the drifts, and return the report."""
        # Versions order a listing and events, and the times of events are of Nova's clock.
        skew = self.api.clock_skew
        found = [
            msgspec.structs.replace(what, listed_at=what.listed_at + skew) for what in self._lasting(comparison.found)
        ]
        differences = [d for what in found for d in what.differences(self._policy.get(what.kind, HEAL))]
        result = NovaWritten()
        if not self.dry_run:
            result = self._write(found, comparison)
        differences += self._liveness(comparison, has_new_hosts=any(w.kind == NODE and w.model is None for w in found))
        if not self.dry_run:
            self._record(differences, comparison)
        return Report(
            scope=self._scope,
            dry_run=self.dry_run,
            complete=not comparison.failures,
            differences=tuple(differences),
            written=result.written,
            deleted=result.deleted,
            refused_deletes=comparison.refused,
            refused_writes={f"{kind} {one or '?'}": why for (kind, one), why in self.api.unreadable.items()}
            | result.refused,
            sizes=comparison.sizes,
            requests=self.api.requests,
            seconds=time.monotonic() - self._began,
            failures=comparison.failures,
            unknown=comparison.unknown,
        )

    def _lasting(self, found: Sequence[NovaDivergence]) -> list[NovaDivergence]:
        """Wait for the events in flight, and drop the differences whose entity was written meanwhile."""
        if not found:
            return []
        self._reconciler._wait(_CONFIRM_SECONDS)
        view = self._context.view()
        lasting = []
        for what in found:
            entity = view.get(what.kind, what.id)
            if entity is None and what.is_gone:
                continue
            if entity is None or entity.seq <= what.generation:
                lasting.append(what)
            elif what.is_gone or differing(what.facets, entity):
                self._read_again(what)
        return lasting

    def _read_again(self, what: NovaDivergence) -> None:
        """An event wrote the entity after the listing: have it compared soon."""
        self._context.doubts.add(what.kind, what.id)

    def _write(self, found: Sequence[NovaDivergence], comparison: NovaComparison) -> NovaWritten:
        """Write what policy and delete guard allow: first what exists, hosts before servers, then what is gone."""
        total, own = NovaWritten(), OwnWrites()
        allowed = [what for what in found if self._is_allowed(what, comparison)]
        gone = {True: reversed(_ORDER), False: iter(_ORDER)}
        for is_gone in (False, True):
            for kind in gone[is_gone]:
                written = self._reconciler._writer.write(
                    [what for what in allowed if what.kind == kind and what.is_gone == is_gone], own
                )
                total.written += written.written
                total.deleted += written.deleted
                for what in written.left:
                    self._read_again(what)
                total.refused |= written.refused
                total.buried += [what for what in written.buried if what.kind == INSTANCE]
        restored = self._reconciler._restorers[self._scope].restore(total.buried, self.api)
        total.written += restored.written
        total.refused |= restored.refused
        return total

    def _is_allowed(self, what: NovaDivergence, comparison: NovaComparison) -> bool:
        is_whole = what.is_gone or what.model is None
        return self._policy.get(what.kind, HEAL) == HEAL and not (is_whole and what.kind in comparison.refused)

    def _liveness(self, comparison: NovaComparison, *, has_new_hosts: bool) -> list[FieldDifference]:
        """Write which hosts are up, and return the differences."""
        context = self._context
        if not comparison.states or comparison.states_at is None:
            return []
        view = context.view()
        if has_new_hosts and not self.dry_run:  # a replica has them after its engine's next commit
            view = TableView(context.store.database, context.store.tables, context.store.kinds)
        at = comparison.states_at + self.api.clock_skew  # the hosts' events have times of Nova's clock
        liveness = context.shared(LivenessWriter)
        return liveness.on_services(comparison.states, view, at=at, source=SCOPE, dry_run=self.dry_run)

    def _record(self, differences: Sequence[FieldDifference], comparison: NovaComparison) -> None:
        """Store the drifts. A partial comparison leaves those of other entities."""
        database, now = self._context.store.database, self._reconciler._now()
        complete = comparison.complete
        found = [d for d in differences if d.kind in complete]
        if complete:
            replace_drifts(database, found, source=SCOPE, kinds=complete, now=now)
        if INSTANCE in complete or not comparison.looked_at:
            return
        looked_at = comparison.looked_at
        known = list_drifts(database, kind=INSTANCE, source=SCOPE, limit=_MAX_DRIFTS)
        others = [
            FieldDifference(**{name: getattr(d, name) for name in _DRIFT})
            for d in known
            if d.entity_id not in looked_at
        ]
        own = [d for d in differences if d.kind == INSTANCE]
        if own or len(others) != len(known):
            replace_drifts(database, [*others, *own], source=SCOPE, kinds=[INSTANCE], now=now)


_DRIFT: Final = ("kind", "entity_id", "field", "model_value", "live_value", "policy")
