# SPDX-License-Identifier: Apache-2.0
"""What people are told about a VNF instance that is not as its pods are. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watcher_sync.conf.reconcile import HEAL
from watcher_sync.handlers.vnf.handler import KIND
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.vnf.evaluation import Observation
from watcher_sync.model.vnf.reports import ReportedDifference, ReportedPod, SyncReport
from watcher_sync.reconcile.drift import plain
from watcher_sync.storage.drifts import Difference


def vnf_differences(instance: VnfInstance, observation: Observation, policy: str) -> list[Difference]:
    """What is worth telling a person: the state, the levels, the numbers and the names of the pods."""
    values = observation.values
    pairs: dict[str, tuple[Any, Any]] = {
        name: (getattr(instance, name), values[name]) for name in ("state", "scale_level", "observed")
    }
    pairs["vnfc_resource_info"] = _pods(instance.vnfc_resource_info), _pods(values["vnfc_resource_info"])
    return [
        Difference(
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
    """The names of the pods behind entries of vnfcResourceInfo."""
    return None if entries is None else [entry["computeResource"]["resourceId"] for entry in entries]


def reported(instance: VnfInstance, observation: Observation) -> SyncReport:
    """What whoever asked for the sync of one instance is told."""
    values = observation.values
    return SyncReport(
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
