# SPDX-License-Identifier: Apache-2.0
"""The sync of one VNF instance under its operation lease, for reconciliation and the API.

The sync takes the lease and locks the journal's head. It reads the tables, evaluates the instance, and writes what
differs, in one transaction. The same pods give the same instance; if nothing differs, nothing is written.

While a life-cycle operation holds the instance, the caller gets
:class:`~watcher_sync.exceptions.OperationRunning` and asks again. For any thread; it has no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.conf.reconcile import HEAL
from watcher_sync.events import Actor
from watcher_sync.extensions.vnf.evaluation import SyncListener, report_sync
from watcher_sync.extensions.vnf.handler import KIND, VnfHandler
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.evaluation import (
    Observation,
    ReportedDifference,
    ReportedPod,
    Unlisted,
    VnfSyncReport,
)
from watcher_sync.operations import SYNC, Operations
from watcher_sync.reconcile.base import FieldDifference
from watcher_sync.reconcile.drift import plain


class VnfSync:
    """Writes the observed facet of VNF instances.

    :param holder: the name under which the lease is taken.
    """

    def __init__(
        self,
        writes: DirectWriter,
        operations: Operations,
        handler: VnfHandler,
        *,
        holder: str = "watcher-sync",
        notifications: SyncListener | None = None,
    ) -> None:
        self._writes = writes
        self._operations = operations
        self._holder = holder
        self._notifications = notifications
        self._handler = handler

    def sync(
        self, vnf_id: str, *, unknown: Mapping[str, Unlisted], source: str, actor: Actor | None = None
    ) -> Observation | None:
        """Write what the tables say of one instance, if it differs; None if there is no such instance.

        :param unknown: kind of objects -> why it is not known which ones exist in the instance's namespace.
        :param source: name of the source that the news comes from; the journal shows it.
        :param actor: recorded as the writer, if a caller of the API asked for the sync.
        :raises OperationRunning: a life-cycle operation holds it.
        :raises DatabaseUnavailable: when the database is away; nothing is written then.
        """
        begun: VnfInstance | None = None
        try:
            with self._operations.held(vnf_id, SYNC, self._holder) as lease, self._writes.begin(actor) as cycle:
                with cycle.store.connect() as connection:
                    self._operations.verify_token(connection, vnf_id, lease.token, lease.proof)
                vnf = cycle.view.get(KIND, vnf_id)
                if not isinstance(vnf, VnfInstance):
                    return None
                observation = self._handler.evaluate(cycle.view, vnf, unknown)
                if observation.changed:
                    begun = vnf
                    cause, change = self._handler.change(vnf, observation, cycle.next_version(), source=source)
                    cycle.write(cause, [change])
        except Exception as exc:
            # The commit may fail as well as the write: a listener gets both notifications or none.
            if begun is not None and self._notifications is not None:
                self._notifications.sync_start(begun)
                self._notifications.sync_error(begun, str(exc))
            raise
        if observation.changed:
            report_sync(vnf, observation, self._notifications)
        return observation


def vnf_differences(instance: VnfInstance, observation: Observation, policy: str) -> list[FieldDifference]:
    """Return the differences that an operator needs: state, levels, numbers of pods and names of pods."""
    values = observation.values
    pairs: dict[str, tuple[Any, Any]] = {
        name: (getattr(instance, name), values[name]) for name in ("state", "scale_level", "observed")
    }
    pairs["vnfc_resource_info"] = _pods(instance.vnfc_resource_info), _pods(values["vnfc_resource_info"])
    return [
        FieldDifference(
            kind=KIND,
            entity_id=instance.id,
            field=name,
            model_value=plain(before),
            live_value=plain(after),
            policy=policy,
        )
        for name, (before, after) in pairs.items()
        if before != after
    ]


def _pods(entries: Sequence[Mapping[str, Any]] | None) -> list[Any] | None:
    """Return the names of the pods of vnfcResourceInfo entries."""
    return None if entries is None else [entry["computeResource"]["resourceId"] for entry in entries]


def reported(instance: VnfInstance, observation: Observation) -> VnfSyncReport:
    """Return the report for the caller that requested the sync of one instance."""
    values = observation.values
    return VnfSyncReport(
        state=values["state"],
        changed=observation.changed,
        vdu_results={
            vdu: {**values["vdu_results"][vdu], "result": result.value} for vdu, result in observation.results.items()
        },
        differences=[
            ReportedDifference(field=d.field, model_value=d.model_value, live_value=d.live_value)
            for d in vnf_differences(instance, observation, HEAL)
        ],
        pods=[ReportedPod(vdu=p.vdu, vnfc_id=p.vnfc, old=p.old, new=p.new) for p in observation.pods],
    )
