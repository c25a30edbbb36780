# SPDX-License-Identifier: Apache-2.0
"""The reconciler of capacity: each enabled provider is one scope.

A run asks its provider, merges the answer with what the other providers reported last, and writes the hosts that
differ, facet ``capacity``. The answer replaces its last one whole. So a host that it does not report any
more loses those fields, unless too many are lost at once: ``[reconcile] max_delete_percent`` holds here, too. A
provider that fails changes nothing. A value that cannot be read or stored is reported, and its host keeps the stored
value. A run is incomplete while the model's inventory lacks reported hosts.

A capacity has no notifications, so a difference that is written is no drift. Under the policy ``observe`` it is one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.extensions.openstack.capacity.providers import load_providers
from watcher_sync.extensions.openstack.capacity.writer import (
    CapacityWriter,
    Reports,
    WrittenCapacity,
    merged,
    sources_of,
)
from watcher_sync.extensions.openstack.conf import capacity as options
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.extensions.openstack.reconcile.reconciler import SCOPE
from watcher_sync.model.delete_guard import refuses_deletes
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, FieldDifference, Reconciler, Report
from watcher_sync.reconcile.capacity_provider import CapacityProvider, HostCapacity
from watcher_sync.reconcile.drift import plain
from watcher_sync.storage.drifts import replace_drifts
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.storage.table_model import TableView

LOG = logging.getLogger(__name__)

_KIND: Final = "compute_node"


class CapacityReconciler(Reconciler):
    """Writes the capacity of hosts."""

    name: ClassVar[str] = "capacity"

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        context: Context,
        *,
        providers: Mapping[str, CapacityProvider] | None = None,
    ) -> None:
        """:param providers: by precedence; None: those that the configuration enables.

        :raises ConfigError: naming the option that is wrong.
        """
        super().__init__(conf, context)
        self._providers = load_providers(conf) if providers is None else providers
        self._now = context.now
        policies(conf, context.store.kinds)
        # Guards _reports, and the writes that follow from them.
        self._lock = threading.Lock()
        self._reports: Reports = {}
        self._unmatched: dict[str, int] = {}

    def scopes(self) -> Sequence[str]:
        """Return the names of the enabled providers."""
        return list(self._providers)

    def interval(self, scope: str) -> float | None:
        """Return ``[reconcile_capacity] interval``."""
        return float(self.conf[options.GROUP].interval)

    def timeout(self, scope: str) -> float | None:
        """Return ``[reconcile_capacity] run_timeout``."""
        return float(self.conf[options.GROUP].run_timeout)

    def wants_run(self, scope: str) -> bool:
        """Return whether the provider has something new, such as a changed file."""
        return self._providers[scope].has_changed()

    def reload(self) -> None:
        """Have the providers read their files again."""
        for provider in self._providers.values():
            provider.reload()

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Ask one provider, and write the differences; see :class:`~watcher_sync.reconcile.base.Reconciler`."""
        began = time.monotonic()
        provider = self._providers[scope]
        answer = list(provider.capacities(deadline))
        store = self.context.store
        inventory = read_inventory(store.database, SCOPE)
        may_lack_hosts = inventory is not None and inventory.complete_since is None
        with self._lock:
            # The tables have what a complete inventory has just written; a replica may have it later.
            nodes = _nodes(TableView(store.database, store.tables, store.kinds))
            found, unknown = self._by_host(scope, answer, nodes)
            before = self._reports.get(scope, {})
            unreadable = {f"{_KIND} {host}": one.unreadable for host, one in found.items() if one.unreadable}
            reported: dict[str, HostCapacity | None]
            reported = {host: before.get(host) if one.unreadable else one for host, one in found.items()}
            known = [node.id for node in nodes if self._has_reported(scope, node)]
            lost = [host for host in known if host not in reported]
            percent = 100 if allow_deletes else self.conf.reconcile.max_delete_percent
            refused = refuses_deletes(len(lost), len(known), percent)
            if refused:
                reported |= {host: before.get(host) for host in lost}
            failures = _failures(refused, lost, known, unknown if may_lack_hosts else 0)
            differences, written = self._compare(nodes, {**self._reports, scope: reported}, scope, dry_run)
        return Report(
            scope=scope,
            dry_run=dry_run,
            complete=not failures,
            differences=tuple(differences),
            written=written.written,
            refused_writes=unreadable | written.refused,
            refused_deletes={_KIND: len(lost)} if refused else {},
            sizes={_KIND: len(known)},
            requests=provider.requests,
            seconds=time.monotonic() - began,
            failures=failures,
        )

    def _by_host(
        self, scope: str, answer: Iterable[HostCapacity], nodes: Sequence[ComputeNode]
    ) -> tuple[dict[str, HostCapacity], int]:
        """Return host -> what is reported of it, for the hosts that the model has, and how many it does not have."""
        hosts = {node.id for node in nodes}
        by_name = {node.hypervisor_hostname: node.id for node in nodes if node.hypervisor_hostname}
        by_uuid = {node.uuid: node.id for node in nodes if node.uuid}
        found: dict[str, HostCapacity] = {}
        unknown = 0
        for one in answer:
            host = one.host or by_uuid.get(one.uuid or "") or by_name.get(one.node or "") or one.node or ""
            if host in hosts:
                found.setdefault(host, one)
            else:
                unknown += 1
        if unknown != self._unmatched.get(scope, 0):
            self._unmatched[scope] = unknown
            LOG.info("capacity provider %s: %d of its hosts are not in the model", scope, unknown)
        return found, unknown

    def _has_reported(self, scope: str, node: ComputeNode) -> bool:
        """Whether the provider reported the host before, in this process or an earlier one."""
        if scope in self._reports:
            return node.id in self._reports[scope]
        return scope in sources_of(node)

    def _compare(
        self, nodes: Sequence[ComputeNode], reports: Reports, scope: str, dry_run: bool
    ) -> tuple[list[FieldDifference], WrittenCapacity]:
        """Find the hosts that differ and, unless it is a dry run, write them.

        :returns: the differences, and what was written.
        """
        policy = policies(self.conf).get(_KIND, HEAL)

        def fields(node: ComputeNode) -> dict[str, Any]:
            return merged(node, list(self._providers), reports)

        differing = {
            node.id: changed
            for node in nodes
            if (changed := {name: value for name, value in fields(node).items() if getattr(node, name) != value})
        }
        differences = [d for node in nodes for d in _differences(node, differing.get(node.id, {}), policy)]
        if dry_run:
            return differences, WrittenCapacity()
        self._reports = reports
        drifts = [] if policy == HEAL else differences
        replace_drifts(
            self.context.store.database, drifts, source=f"{self.name}/{scope}", kinds=[_KIND], now=self._now()
        )
        if policy != HEAL:
            return differences, WrittenCapacity()
        writer = CapacityWriter(self.context.writes, fields, source=scope, at=self._now())
        return differences, writer.write(list(differing))


def _failures(is_refused: bool, lost: Sequence[str], known: Sequence[str], missing: int) -> dict[str, str]:
    """Return why a run is incomplete.

    :param missing: reported hosts that the model lacks because its inventory is incomplete.
    """
    if is_refused:
        return {"hosts": f"{len(lost)} of {len(known)} are not reported any more"}
    return {"hosts": f"{missing} are not in the model, whose inventory is incomplete"} if missing else {}


def _nodes(view: View) -> list[ComputeNode]:
    """All hosts, without those whose compute service was deleted."""
    found = (node for state in ("up", "down", "unknown") for node in view.by(_KIND, "state", state))
    return [node for node in found if isinstance(node, ComputeNode) and not node.gone]


def _differences(node: ComputeNode, changed: Mapping[str, Any], policy: str) -> Iterable[FieldDifference]:
    for name, value in changed.items():
        yield FieldDifference(
            kind=_KIND,
            entity_id=node.id,
            field=name,
            model_value=plain(getattr(node, name)),
            live_value=value,
            policy=policy,
        )
