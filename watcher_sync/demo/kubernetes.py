# SPDX-License-Identifier: Apache-2.0
"""Kubernetes in the demo: a cluster, its VNF instances, and life-cycle managers.

The cluster is the fake API server in this process, on a loopback port. The driver ``kubernetes`` follows it like a
real one. Registrations and operation leases use the demo's own API over HTTP.

The server starts before the configuration is written, because its kubeconfig names the port. Registration, accidents
and managers start when the API is served. At the end the managers release their leases, the cluster comes to rest,
and the server answers until the engine has stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Iterator
from typing import Final, Self

import requests

from watcher_sync.client import connect
from watcher_sync.demo import cluster_truth
from watcher_sync.demo.cluster_truth import UNTOLD
from watcher_sync.demo.limits import Limits
from watcher_sync.demo.live_cluster import LiveCluster
from watcher_sync.demo.live_managers import LiveManagers
from watcher_sync.demo.screen import VnfRow
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model import matching
from watcher_sync.model.model import Snapshot
from watcher_sync.testing.comparison import ModelDifference
from watcher_sync.testing.deadlines import deadline
from watcher_sync.testing.ledger import Truth

__all__ = ("SOURCE", "UNTOLD", "Kubernetes")

SOURCE: Final = "edge"
"""Name of the source, and of the cluster in the model."""

_CONFIG: Final = f"""
[source_{SOURCE}]
driver = kubernetes
kubeconfig = {{kubeconfig}}
cluster = {SOURCE}
"""

_SHARE: Final = 0.05
"""Accidents of the cluster for a notification of the cloud."""
_FASTEST: Final = 20.0
"""Accidents a second, where the cloud goes as fast as it can."""
_REPORTED: Final = {
    "killed": "pods killed",
    "evicted": "evicted",
    "crashed": "crash loops",
    "rolled": "rollouts",
    "scaled": "scalings behind our back",
    "scaled by a manager": "by managers",
}


class Kubernetes:
    """The cluster of one demo; none, where it is to run without."""

    def __init__(
        self, options: argparse.Namespace, limits: Limits, cluster: LiveCluster | None, kubeconfig: pathlib.Path
    ) -> None:
        self._seed = options.seed
        self._limits = limits
        self._cluster = cluster
        self._managers: LiveManagers | None = None
        path = str(kubeconfig).replace("$", "$$")
        self.config = _CONFIG.format(kubeconfig=path) if cluster is not None else ""
        """What the configuration says of the source."""

    @classmethod
    @contextlib.contextmanager
    def begun(cls, options: argparse.Namespace, limits: Limits, folder: pathlib.Path) -> Iterator[Self]:
        """With a server that answers, where one is wanted.

        :param folder: where the kubeconfig is written.
        """
        kubeconfig = folder / "kubeconfig"
        if not options.kubernetes:
            yield cls(options, limits, None, kubeconfig)
            return
        rate = min(options.rate * _SHARE, _FASTEST) or _FASTEST
        with contextlib.closing(LiveCluster(SOURCE, rate=rate, seed=options.seed)) as cluster:
            cluster.listen(kubeconfig)
            yield cls(options, limits, cluster, kubeconfig)

    @property
    def failure(self) -> Exception | None:
        """What ended the cluster or a manager before its time."""
        found = [part.failure for part in (self._cluster, self._managers) if part is not None]
        return next((failure for failure in found if failure is not None), None)

    def register(self, url: str) -> None:
        """Register the instances; nothing happens yet.

        :param url: where the API is served.
        :raises WatcherSyncError: the API refuses a registration.
        """
        if self._cluster is None:
            return
        with requests.Session() as session:
            session.trust_env = False  # the loopback interface is not reached over a proxy
            for function in self._cluster.functions:
                registration = function.registration(SOURCE)
                try:
                    answer = session.post(
                        f"{url}/v1/vnf_instances", json=registration, timeout=deadline(self._limits.answer)
                    )
                except requests.RequestException as exc:
                    raise WatcherSyncError(f"{function.name} cannot be registered: {exc}") from exc
                if answer.status_code != 201:
                    raise WatcherSyncError(
                        f"the API answers {answer.status_code} to the registration of {function.name}"
                    )

    def is_registered(self, snapshot: Snapshot) -> bool:
        """Whether the model has the registered instances and all objects of the cluster; only before :meth:`start`."""
        if self._cluster is None:
            return True
        if any(snapshot.get("vnf_instance", function.id) is None for function in self._cluster.functions):
            return False
        return not cluster_truth.differs_from_truth(self._cluster.server, SOURCE, snapshot)

    def start(self, url: str) -> None:
        """Let things happen; returns at once. The instances are registered.

        :param url: where the API is served.
        """
        if self._cluster is None:
            return
        self._managers = LiveManagers(
            lambda: connect(url, timeout=deadline(self._limits.answer)),
            self._cluster.functions,
            self._cluster,
            seed=self._seed,
        )
        self._cluster.start()
        self._managers.start()

    def stop(self) -> None:
        """Begin nothing more, end what is in hand, and bring the cluster to rest.

        :raises WatcherSyncError: it does not come to rest.
        """
        timeout = deadline(self._limits.stop)
        if self._managers is not None and not self._managers.stop(timeout):
            raise WatcherSyncError(f"the life-cycle managers do not end within {timeout:.0f} s")
        if self._cluster is not None and not self._cluster.stop(timeout):
            raise WatcherSyncError(f"the simulated cluster does not come to rest within {timeout:.0f} s")

    def settled(self, snapshot: Snapshot) -> bool:
        """Whether the model has all objects of the cluster; only after :meth:`stop`."""
        if self._cluster is None:
            return True
        if cluster_truth.differs_from_truth(self._cluster.server, SOURCE, snapshot):
            return False
        return not self.differences(snapshot)

    def lacking(self, snapshot: Snapshot) -> bool:
        """Whether the model lacks objects of the cluster; only after :meth:`stop`."""
        return self._cluster is not None and cluster_truth.is_incomplete(self._cluster.server, SOURCE, snapshot)

    def truth(self) -> Truth:
        """What the model has to hold of the cluster; only after :meth:`stop`."""
        return self._cluster.truth() if self._cluster is not None else {}

    def differences(self, snapshot: Snapshot) -> list[ModelDifference]:
        """What is observed of VNF instances and is not so; only after :meth:`stop`."""
        if self._cluster is None:
            return []
        return list(cluster_truth.observed_differences(self._cluster.server, self._cluster.functions, snapshot))

    # What is shown

    def vnfs(self, snapshot: Snapshot) -> list[VnfRow]:
        """The VNF instances as the model has them, and who works on them."""
        held = self._managers.held() if self._managers is not None else {}
        found = (snapshot.get("vnf_instance", entity_id) for entity_id in snapshot.ids("vnf_instance"))
        rows = [_row(snapshot, vnf, held.get(vnf.id, "")) for vnf in found if isinstance(vnf, VnfInstance)]
        return sorted(rows, key=lambda row: row.name)

    def operations(self) -> str:
        """What the managers did, in a few words; empty without them."""
        if self._managers is None:
            return ""
        lost = f", {self._managers.lost} lost" if self._managers.lost else ""
        return f"{self._managers.completed} operations, {self._managers.refused} refused with 409{lost}"

    def summary(self, snapshot: Snapshot) -> list[str]:
        """What happened and its result, as lines of a heading and a text."""
        if self._cluster is None or self._managers is None:
            return []
        counts = self._cluster.counts
        happened = ", ".join(f"{what} {counts[name]}" for name, what in _REPORTED.items() if counts[name])
        lines = [f"Cluster    {happened or 'nothing happened'}", f"Managers   {self.operations()}"]
        if self._managers.refusal:
            lines.append(f"           the last 409: {self._managers.refusal}")
        for heading, row in zip(("VNFs", *[""] * 99), self.vnfs(snapshot), strict=False):
            lines.append(f"{heading:<11}{row.name}: {row.state}, {row.levels or 'no levels'}, {row.pods} pods")
        return lines


def _row(snapshot: Snapshot, vnf: VnfInstance, held_by: str) -> VnfRow:
    aspects, levels = vnf.aspects or {}, vnf.scale_level or {}
    inputs = (
        matching.read_vdu(snapshot, cluster=vnf.cluster or "", namespace=vnf.namespace or "", workload=vdu["workload"])
        for vdu in (vnf.vdus or {}).values()
    )
    return VnfRow(
        name=vnf.name or vnf.id,
        state=vnf.state,
        levels=", ".join(f"{name} {levels.get(name, '-')}/{a['max_scale_level']}" for name, a in aspects.items()),
        pods=sum(len(vdu.counted()) for vdu in inputs),
        held_by=held_by,
    )
