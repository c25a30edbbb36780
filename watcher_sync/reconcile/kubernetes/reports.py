# SPDX-License-Identifier: Apache-2.0
"""Reports of the differences between a VNF instance and its pods. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watcher_sync.conf.reconcile import HEAL
from watcher_sync.handlers.vnf.handler import KIND
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.vnf.evaluation import Observation
from watcher_sync.model.vnf.reports import ReportedDifference, ReportedPod, VnfSyncReport
from watcher_sync.reconcile.drift import plain
from watcher_sync.storage.drifts import FieldDifference


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
