# SPDX-License-Identifier: Apache-2.0
"""Counts what one event costs inside a real engine: Python calls by stage, and database transactions.

:func:`trace` runs an engine in this process, on SQLite, with a source that the caller speaks through. It pushes one
Nova ``instance.update``, one DCM event, one pod that concerns no VNF instance, and one pod that changes one.

Counted: calls of functions of ``watcher_sync`` in the engine's thread, by ``sys.setprofile``, so none of libraries. A
generator is one call: Python 3.11 resumes an abandoned one to close it, and newer interpreters do not. Comprehensions
and generator expressions are none. A stage lasts as long as one of its functions is on the stack.
"""

from __future__ import annotations

import dis
import functools
import pathlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, SimpleNamespace
from typing import Any

import msgspec
import sqlalchemy as sa
from oslo_config import cfg

from tests.clusters import one_vdu
from tests.migrated import migrate
from tests.providers import KIND as SERVICE
from tests.providers import event as dcm_event
from tests.unit.engine.conftest import Spoken, until
from tests.waiting import deadline
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.engine import Engine
from watcher_sync.events import Event
from watcher_sync.extensions.dcm.handler.handler import DcmHandler
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.extensions.kubernetes.source.credentials import Access
from watcher_sync.extensions.kubernetes.source.resources import KNOWN
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.extensions.vnf.api.registration import registration
from watcher_sync.extensions.vnf.evaluation import COALESCE_SECONDS, VnfEvaluation
from watcher_sync.extensions.vnf.handler import VnfHandler
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.database import database
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.nova import notifications
from watcher_sync.wire.envelopes import read_document

STAGES = ("intake", "dispatch", "handler", "model", "evaluation", "statements", "commit", "publish", "ack")

_STAGE_OF = {
    ("engine.consumer", "ConsumeLoop.step"): "intake",
    ("engine.consumer", "ConsumeLoop._commit"): "dispatch",
    ("model.transaction", "Transaction.apply"): "model",
    ("extensions.vnf.evaluation", "VnfEvaluation.evaluate_into"): "evaluation",
    ("storage.writing.store", "Store.prepare"): "statements",
    ("storage.writing.store", "Store._run"): "commit",
    ("storage.writing.store", "Store._end"): "commit",
    ("commit.batch_committer", "BatchCommitter.publish"): "publish",
    ("engine.consumer", "ConsumeLoop._ack_or_nack"): "ack",
}
_ROOT = "watcher_sync."
_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
_STAGING = (("model.entity_overlay", "EntityOverlay._stage"), ("model.entity_overlay", "EntityOverlay._create"))
"""The functions that stage a row; their local variable ``kind`` says of which kind."""


class Call(msgspec.Struct, frozen=True):
    """One call of a function of watcher_sync."""

    stage: str
    module: str
    """Without the package."""
    function: str


class Walk(msgspec.Struct):
    """What one batch cost."""

    calls: list[Call] = []
    staged: dict[str, int] = {}
    """Kind -> how many calls had been made when its row was staged, with all its facets."""
    transactions: int = 0

    def count(self, stage: str | None = None) -> int:
        """How many calls a stage has; None: all."""
        return sum(stage in (None, call.stage) for call in self.calls)

    def modules(self, stage: str | None = None) -> list[str]:
        """The modules that a stage enters, in the order of their first calls; None: those of all stages."""
        return list(dict.fromkeys(call.module for call in self.calls if stage in (None, call.stage)))

    @property
    def between(self) -> int:
        """Calls from the staging of the pod's row to that of the instance's."""
        return self.staged["vnf_instance"] - self.staged["pod"]


class Profiler:
    """Records the walk of every batch. It belongs to the engine's thread."""

    def __init__(self) -> None:
        self.walks: list[Walk] = []
        """One for each batch that was taken, when it is over."""
        self.walk = Walk()
        """The one under way."""
        self._stack: list[str] = []
        self._thread = 0

    def install(self) -> None:
        """Profile the calling thread from now on."""
        self._thread = threading.get_ident()
        sys.setprofile(self._event)

    def began(self, _connection: object) -> None:
        """A database transaction begins; one between two batches, such as a poll of the journal, is of no walk."""
        if threading.get_ident() == self._thread and self._stack and self._stack[0]:
            self.walk.transactions += 1

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_ROOT):
            return
        module, name = module.removeprefix(_ROOT), frame.f_code.co_qualname
        if event == "call":
            self._enter(module, name, is_call=_is_begun(frame))
        else:
            self._leave(module, name, frame)

    def _enter(self, module: str, name: str, *, is_call: bool) -> None:
        if name == "ConsumeLoop.step":
            self.walk = Walk()
            self._stack.clear()
        stage = _STAGE_OF.get((module, name))
        if stage is None:
            inside = self._stack[-1] if self._stack else ""
            stage = "handler" if "handler" in module and inside in ("model", "dispatch") else inside
        self._stack.append(stage)
        if stage and is_call:
            self.walk.calls.append(Call(stage, module, name))

    def _leave(self, module: str, name: str, frame: FrameType) -> None:
        if self._stack:
            self._stack.pop()
        if (module, name) in _STAGING:
            self.walk.staged[frame.f_locals["kind"].name] = len(self.walk.calls)
        if name == "ConsumeLoop.step" and self.walk.count("ack"):
            self.walks.append(self.walk)


def _is_begun(frame: FrameType) -> bool:
    """Whether a frame that is entered counts as a call: not if it is resumed, or is a comprehension's."""
    return frame.f_lasti <= _start_of(frame.f_code) and not frame.f_code.co_name.endswith(_COMPREHENSIONS)


@functools.cache
def _start_of(code: CodeType) -> int:
    """The offset of the instruction at which a call begins. A cache of the functions of the program."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")


class Site:
    """The engine and its source."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.conf = cfg.ConfigOpts()
        opts.register_opts(self.conf)
        opts.register_database(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.conf.set_override("state_path", str(folder))
        self.conf.set_override("connection", f"sqlite:///{folder / 'ws.sqlite'}", group="database")
        self.store = Store(database.open_database(self.conf), builtin_kinds())
        migrate(self.store)
        self.dispatcher = Dispatcher(
            [("dcm", DcmHandler()), ("kubernetes", KubernetesHandler()), ("nova", NovaHandler())]
        )
        target = ClusterTarget(cluster="edge", source="edge", access=Access(), resources=tuple(KNOWN.values()))
        self.evaluation = VnfEvaluation({"edge": target}, handler=VnfHandler(SimpleNamespace(settling_limit=300)))
        self.source = Spoken("edge")
        self.profiler = Profiler()
        lease = EngineLease(self.store.database, self.store.tables, "engine:default", seconds=30.0)
        sources = {"edge": lambda: self.source}
        self.engine = Engine(
            self.conf, self.store, self.dispatcher, lease, sources, [lambda _engine: self.evaluation], self.evaluation
        )
        self._numbers = iter(range(1, 1_000_000))

    def run(self) -> None:
        """The engine's thread."""
        self.profiler.install()
        self.engine.run()

    def register(self, vnf_id: str, body: dict[str, Any]) -> None:
        """As the API does."""
        self.write("vnf_instance", vnf_id, {"registration": registration(body)})

    def write(self, kind: str, entity_id: str, facets: dict[str, dict[str, Any]]) -> None:
        """As the API does."""
        with DirectWriter(self.store, self.dispatcher).begin() as cycle:
            change = Upsert(kind, entity_id, cycle.next_version(), facets)
            cycle.write(Event(id=entity_id, type=f"{kind}.created", source="api"), [change])

    def kubernetes(self, what: str, document: object) -> Event:
        """An event of the cluster."""
        number = next(self._numbers)
        return Event(
            id=f"e-{number}",
            type=f"kubernetes.{what}",
            source="edge",
            origin="edge",
            data=msgspec.json.encode(document),
            sequence=(1, number),
        )

    def push(self, *events: Event) -> Walk:
        """Have the engine commit events. Return the walk of the batch that had the last one."""
        before, acked = len(self.profiler.walks), len(self.source.acked)
        self.source.say(*events)
        assert until(lambda: len(self.source.acked) == acked + len(events) and len(self.profiler.walks) > before)
        return self.profiler.walks[-1]


def metadata(name: str, *, owner: str | None = None, kind: str = "ReplicaSet") -> dict[str, Any]:
    """The metadata of an object whose uid is made of its name."""
    references = [{"uid": f"uid-{owner}", "kind": kind, "name": owner, "controller": True, "apiVersion": "apps/v1"}]
    return {
        "uid": f"uid-{name}",
        "name": name,
        "namespace": "default",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-02T00:00:00Z",
        "ownerReferences": references if owner is not None else [],
    }


def pod(name: str, owner: str) -> dict[str, Any]:
    """A pod that runs."""
    return {"metadata": metadata(name, owner=owner), "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}}


def workloads(site: Site, name: str) -> Sequence[Event]:
    """A Deployment of three pods and its ReplicaSet; two pods run."""
    deployment = {
        "metadata": metadata(name),
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "updatedReplicas": 3, "readyReplicas": 2},
    }
    return [
        site.kubernetes("deployment.added", deployment),
        site.kubernetes("replicaset.added", {"metadata": metadata(f"{name}-rs", owner=name, kind="Deployment")}),
        *(site.kubernetes("pod.added", pod(f"{name}-{n}", f"{name}-rs")) for n in range(2)),
    ]


@contextmanager
def running(folder: pathlib.Path) -> Iterator[Site]:
    """An engine that leads, two Deployments, and one instance that names the first one, and waits for its third pod."""
    site = Site(folder)
    site.register("v1", one_vdu())
    site.write(SERVICE, "i-1", {"spec": {"service_type": "vm"}, "provider": {"provider_name": "kubevirt-1"}})
    # Before the engine uses the database: SQLAlchemy calls listeners while another thread may add one.
    sa.event.listen(site.store.database, "begin", site.profiler.began)
    thread = threading.Thread(target=site.run, name="engine", daemon=True)
    thread.start()
    try:
        listed = {"has_synced": True, "last_sync_at": "2026-01-02T00:00:00Z"}
        site.push(*workloads(site, "vdu1"), *workloads(site, "other"), site.kubernetes("cluster.synced", listed))
        site.push(read_document(notifications.event("instance.create.end"), source="nova"))
        site.push(dcm_event(reported="PROVISIONING", sequence=1))  # the first one fills the caches of the decoders
        assert until(lambda: getattr(_instance(site), "state", None) == "SETTLING")
        # The next evaluation of the instance is to share the commit of its pod.
        at = time.monotonic()
        assert until(lambda: time.monotonic() > at + COALESCE_SECONDS)
        yield site
    finally:
        site.engine.stop(5.0)
        thread.join(deadline(15))
        site.store.close()
        site.store.database.dispose()


def trace(folder: pathlib.Path) -> dict[str, Walk]:
    """The walks of the four events."""
    with running(folder) as site:
        return push_each(site)


def push_each(site: Site) -> dict[str, Walk]:
    """Have the engine commit the four events, one at a time."""
    later = {"timestamp": "2026-03-01 12:00:10.000000", "message_id": "a7e0"}
    update = notifications.event("instance.update", state="stopped", task_state=None, envelope=later)
    walks = {
        "instance.update": site.push(read_document(update, source="nova")),
        "DCM event": site.push(dcm_event(reported="RUNNING", sequence=2)),
        "pod of no instance": site.push(site.kubernetes("pod.added", pod("other-2", "other-rs"))),
        "pod of a VNF instance": site.push(site.kubernetes("pod.added", pod("vdu1-2", "vdu1-rs"))),
    }
    assert _instance(site).scale_level == {"vdu1_aspect": 2}
    return walks


def _instance(site: Site) -> Any:
    return site.engine.model.snapshot().get("vnf_instance", "v1")
