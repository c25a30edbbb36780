# SPDX-License-Identifier: Apache-2.0
"""A cluster over HTTP, a database, and the reconciler between them: no engine, no watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from oslo_config import cfg

from tests.sites import Site
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.vnf.api.registration import registration
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.model.changes import Upsert
from watcher_sync.model.view import View
from watcher_sync.operations import Operations
from watcher_sync.reconcile.base import Context, Report
from watcher_sync.storage.drifts import DriftRow, list_drifts
from watcher_sync.testing.kubernetes import KubernetesServer

Row = tuple[str, str, str]


def nothing(_seconds: float) -> None:
    """Instead of waiting for a watch that is not there."""


class Installation(Site):
    """One database and the clusters that its configuration follows.

    :param servers: cluster -> its API server.
    """

    def __init__(
        self, folder: Path, servers: Mapping[str, KubernetesServer], *, url: str | None = None, **options: Any
    ):
        super().__init__(folder, url=url)
        self.conf.set_override("enabled_sources", [*servers], group="engine")
        for name, server in servers.items():
            opts.register_source(self.conf, name, opts_of_kubernetes())
            group = f"source_{name}"
            self.conf.set_override("driver", "kubernetes", group=group)
            self.conf.set_override("kubeconfig", str(server.kubeconfig(folder / f"kubeconfig-{name}")), group=group)
            for option, value in options.items():
                self.conf.set_override(option, value, group=group)
        handler = KubernetesHandler()
        handler.configure(self.conf)
        self.dispatcher = Dispatcher([("kubernetes", handler)])

    def context(self, view: Callable[[], View] | None = None) -> Context:
        return make_context(self.conf, self.store, self.dispatcher, view or (lambda: self.model))

    @property
    def operations(self) -> Operations:
        return self.context().operations

    def reconciler(self, wait: Callable[[float], None] = nothing) -> VnfClusterReconciler:
        return VnfClusterReconciler(self.conf, self.context(), wait=wait)

    def reconcile(self, scope: str = "edge", wait: Callable[[float], None] = nothing, **how: Any) -> Report:
        return self.reconciler(wait).run(scope, deadline=time.monotonic() + deadline(60), **how)

    def told(self, *events: Event) -> None:
        """Events that an engine commits."""
        CommitCycle(self.store, self.store.load(), self.dispatcher).run(Batch(events=events))

    def register(self, vnf_id: str, body: Mapping[str, Any]) -> None:
        """As the API does."""
        with self.context().writes.begin() as cycle:
            change = Upsert("vnf_instance", vnf_id, cycle.next_version(), {"registration": registration(dict(body))})
            cycle.write(Event(id=vnf_id, type="vnf_instance.created", source="api"), [change])

    def vnf(self, vnf_id: str) -> VnfInstance:
        found = self.model.get("vnf_instance", vnf_id)
        assert isinstance(found, VnfInstance)
        return found

    def head(self) -> int:
        return self.store.load().generation

    def drifts(self) -> list[DriftRow]:
        return list_drifts(self.store.database)

    def objects(self) -> dict[str, Row]:
        """uid -> (kind, name, resource version), as the tables have it."""
        found: dict[str, Row] = {}
        for kind in ("pod", "workload"):
            for entity in self.model.all(kind):
                found[entity.id] = (getattr(entity, "kind", "Pod"), entity.name, entity.resource_version)
        return found


def opts_of_kubernetes() -> list[cfg.Opt]:
    from watcher_sync.extensions.kubernetes.source.source import KubernetesSource

    return KubernetesSource.options


def truth(server: KubernetesServer) -> dict[str, Row]:
    """The same, as the cluster has it."""
    found: dict[str, Row] = {}
    for kind in ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        for obj in server.objects(kind):
            metadata = obj["metadata"]
            found[metadata["uid"]] = (kind, metadata["name"], metadata["resourceVersion"])
    return found


def one_vdu(kind: str = "Deployment", name: str = "vdu1", **more: Any) -> dict[str, Any]:
    """A registration with levels 0, 1, 2 of 1, 2, 3 pods."""
    return {
        "name": "demo",
        "cluster": "edge",
        "namespace": "default",
        "vnfd_id": "helloworld3",
        "flavour_id": "simple",
        "vdus": {"VDU1": {"workload": {"kind": kind, "name": name}, "initial": 1, "min": 1, "max": 3}},
        "aspects": {"vdu1_aspect": {"max_scale_level": 2, "deltas": {"VDU1": 1}}},
        **more,
    }
