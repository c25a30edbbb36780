# SPDX-License-Identifier: Apache-2.0
"""A fake cluster, a source that follows it over real HTTP, and a model that keeps what it says."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.conf import monitoring
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.kubernetes.source.reflector import Reflector
from watcher_sync.extensions.kubernetes.source.source import KubernetesSource
from watcher_sync.model.model import Model, Snapshot
from watcher_sync.model.transaction import Transaction
from watcher_sync.sources.base import IntakeClosed
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.kubernetes import KubernetesServer

DEFAULTS = {"backoff_max": 0.3, "read_timeout": 60.0, "watch_list_timeout": 30.0}
"""A source tries again soon, and no stall of the machine is a timeout. Tests about timeouts have shorter ones."""

PODS = "/api/v1/pods"


class Engine:
    """Applies what is emitted to a model, as the real one does, and keeps it."""

    def __init__(self) -> None:
        self.model = Model(builtin_kinds())
        self.events: list[Event] = []
        self.closed = False
        self.gate = threading.Event()
        self.gate.set()
        self.handler = KubernetesHandler()
        self._dispatcher = Dispatcher([("kubernetes", self.handler)])
        self._lock = threading.Lock()

    def emit(self, events: Sequence[Event]) -> None:
        """Blocks while the gate is shut."""
        while not self.gate.wait(0.05):
            if self.closed:
                raise IntakeClosed
        if self.closed:
            raise IntakeClosed
        with self._lock:
            transaction = Transaction(self.model)
            for event in events:
                if event.undecodable is None:
                    entry = self._dispatcher.find(event.type)
                    assert entry is not None, event.type
                    assert entry.call is not None, event.type
                    transaction.apply(event, entry.call(event, transaction) or ())
            self.model.publish(transaction)
            self.events += events

    def snapshot(self) -> Snapshot:
        """The model; what it says is also in the events."""
        with self._lock:
            return self.model.snapshot()

    def types(self, kind: str = "pod") -> list[str]:
        """What happened to objects of this kind, in order."""
        return [e.type.rpartition(".")[2] for e in list(self.events) if e.type.startswith(f"kubernetes.{kind}.")]

    def names(self) -> list[str]:
        """Of the pods in the model."""
        return sorted(pod.name for pod in self.snapshot().all("pod"))


_EPOCHS = itertools.count(1)
"""What the database counts in the field."""


def make_source(
    kubeconfig: str | None, cursor: str | None = None, *, name: str = "edge", stale_after: float = 600, **options: Any
) -> KubernetesSource:
    conf = cfg.ConfigOpts()
    conf.register_opts(KubernetesSource.options, group=f"source_{name}")
    conf.register_opts(monitoring.OPTS, group=monitoring.GROUP)
    conf([], default_config_files=[])
    conf.set_override("stale_after", stale_after, group=monitoring.GROUP)
    for option, value in {"kubeconfig": kubeconfig, **DEFAULTS, **options}.items():
        conf.set_override(option, value, group=f"source_{name}")
    return KubernetesSource(name, conf, cursor=cursor or str(next(_EPOCHS)))


@contextlib.contextmanager
def following(
    server: KubernetesServer, folder: Path, engine: Engine, *, synced: bool = True, **options: Any
) -> Iterator[KubernetesSource]:
    """A source of the server; by default as soon as everything was listed and is watched."""
    source = make_source(server.kubeconfig(folder / "kubeconfig"), **{"resources": ["pods"], **options})
    source.start(engine.emit)
    try:
        if synced:
            wait_until(lambda: source.has_synced, what="the first listing")
            server.requests.wait_for_watches(len(source.reflectors))
        yield source
    finally:
        engine.closed = True
        source.stop(time.monotonic() + deadline(5))
        wait_until(lambda: not threads_of(source), what="the end of the threads")
        engine.closed = False


def threads_of(source: KubernetesSource) -> list[str]:
    """The names of its threads that live."""
    return [t.name for t in threading.enumerate() if t.name.startswith(f"source-{source.name}-")]


def only(source: KubernetesSource) -> Reflector:
    """The source's one reflector."""
    (reflector,) = source.reflectors
    return reflector


def listed(server: KubernetesServer) -> list[Mapping[str, str]]:
    """The queries of the lists, without those that ask for the version alone."""
    return [r.query for r in server.requests.last() if r.verb == "list" and r.query.get("limit") != "1"]


def truth(server: KubernetesServer) -> dict[str, Any]:
    """uid -> what the model shall say of each pod and workload."""
    found: dict[str, Any] = {}
    for kind in ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        for obj in server.objects(kind):
            metadata = obj["metadata"]
            found[metadata["uid"]] = (metadata["name"], metadata["namespace"], metadata["resourceVersion"])
    return found


def told(engine: Engine) -> dict[str, Any]:
    """The same, as the model says it."""
    snapshot = engine.snapshot()
    return {
        entity.id: (entity.name, entity.namespace, entity.resource_version)
        for kind in ("pod", "workload")
        for entity in snapshot.all(kind)
    }


def wait_for_truth(server: KubernetesServer, engine: Engine, seconds: float = PATIENCE_SECONDS) -> None:
    """Until the model says what the server has. :raises AssertionError: with the differences."""
    try:
        wait_until(lambda: told(engine) == truth(server), seconds)
    except AssertionError:
        assert told(engine) == truth(server)
