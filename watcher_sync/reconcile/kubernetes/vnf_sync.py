# SPDX-License-Identifier: Apache-2.0
"""One VNF instance, brought in step with the pods that the model knows.

What is written follows from the tables alone, at the moment of writing: the lease is taken, the head of the journal
is locked, the instance and its pods are read, and what they give is compared with what the instance has. So it
does not matter who notices that there may be something to do, a listing or an event, nor how late: the same
pods give the same instance, and where nothing differs nothing is written.

While a life-cycle operation holds the instance it is left alone; whoever asked is told, and asks again.

For any thread; nothing is kept.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection
from typing import Final

from oslo_log import log as logging

from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.view import View
from watcher_sync.model.vnf.evaluation import Observation, observe
from watcher_sync.model.vnf.matching import look
from watcher_sync.operations import SYNC, Operations
from watcher_sync.reconcile.notify import Notifications

LOG = logging.getLogger(__name__)

KIND: Final = "vnf_instance"

NEEDS: Final = {
    "Pod": {"Pod"},
    "Deployment": {"Pod", "ReplicaSet", "Deployment"},
    "ReplicaSet": {"Pod", "ReplicaSet"},
    "StatefulSet": {"Pod", "StatefulSet"},
    "DaemonSet": {"Pod", "DaemonSet"},
}
"""Kind of a VDU's workload -> kinds of objects that have to be known for it."""


def new_uuid() -> str:
    """For an entry that is new."""
    return str(uuid.uuid4())


def judge(
    view: View, vnf: VnfInstance, unknown: Collection[str] = (), *, new_id: Callable[[], str] = new_uuid
) -> Observation:
    """What an instance would be by what a view has.

    :param unknown: kinds of objects that could not be listed.
    :param new_id: makes the ids of new entries.
    """
    sights = {}
    for name, vdu in (vnf.vdus or {}).items():
        workload = vdu["workload"]
        known = NEEDS[workload["kind"]].isdisjoint(unknown)
        where = {"cluster": vnf.cluster or "", "namespace": vnf.namespace or ""}
        sights[name] = look(view, **where, workload=workload) if known else None
    return observe(vnf, sights, new_id=new_id)


class VnfSync:
    """What writes the observed facet of VNF instances.

    :param holder: under which name the lease is taken.
    """

    def __init__(
        self,
        writes: DirectWriter,
        operations: Operations,
        *,
        holder: str = "watcher-sync",
        notifications: Notifications | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        new_id: Callable[[], str] = new_uuid,
    ) -> None:
        self._writes = writes
        self._operations = operations
        self._holder = holder
        self._notifications = notifications
        self._now = now
        self._new_id = new_id

    def sync(self, vnf_id: str, *, unknown: Collection[str] = (), source: str) -> Observation | None:
        """Write what the tables say of one instance, if it differs; None where there is no such instance.

        :param unknown: kinds of objects that could not be listed.
        :param source: whose news it is; the journal tells.
        :raises OperationRunning: a life-cycle operation holds it.
        :raises DatabaseUnavailable: when the database is away; nothing is written then.
        """
        begun: VnfInstance | None = None
        try:
            with self._operations.held(vnf_id, SYNC, self._holder) as lease, self._writes.begin() as cycle:
                with cycle.store.connect() as connection:
                    self._operations.verify_token(connection, vnf_id, lease.token)
                vnf = cycle.view.get(KIND, vnf_id)
                if not isinstance(vnf, VnfInstance):
                    return None
                observation = judge(cycle.view, vnf, unknown, new_id=self._new_id)
                if observation.changed:
                    begun = vnf
                    self._write(cycle, vnf, observation, source)
        except Exception as exc:
            # The commit may have failed as well as the write: who heard of the start hears of the end.
            if begun is not None and self._notifications is not None:
                self._notifications.sync_error(begun, str(exc))
            raise
        if observation.changed:
            _tell(vnf, observation)
            if self._notifications is not None:
                results = {vdu: result.value for vdu, result in observation.results.items()}
                self._notifications.sync_end(vnf, results, observation.values["observed"])
        return observation

    def _write(self, cycle: DirectCommitCycle, vnf: VnfInstance, observation: Observation, source: str) -> None:
        if self._notifications is not None:
            self._notifications.sync_start(vnf)
        now = self._now()
        cause = Event(id=str(uuid.uuid4()), type=f"{KIND}.synced", source=source, subject=vnf.id, time=now)
        facet = {**observation.values, "observed_at": now}
        cycle.write(cause, [Upsert(KIND, vnf.id, cycle.next_version(), {"observed": facet})])


def _tell(vnf: VnfInstance, observation: Observation) -> None:
    """The log lines of what was written."""
    for change in observation.pods:
        LOG.info("VNF instance %s, %s: vnfc %s: pod %s -> %s", vnf.id, change.vdu, change.vnfc, change.old, change.new)
    before, levels = vnf.scale_level or {}, observation.values["scale_level"]
    for aspect, level in levels.items():
        if before.get(aspect) != level:
            LOG.info("VNF instance %s: %s: level %s -> %s", vnf.id, aspect, before.get(aspect), level)
    if vnf.state != observation.values["state"]:
        LOG.info("VNF instance %s: %s -> %s", vnf.id, vnf.state, observation.values["state"])
