# SPDX-License-Identifier: Apache-2.0
"""What a sync of one VNF instance found: plain data, between who runs it and who shows it."""

from __future__ import annotations

from typing import Any

import msgspec


class ReportedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the instance that is not what the live system shows."""

    field: str
    model_value: Any
    live_value: Any


class ReportedPod(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of vnfcResourceInfo that has another pod, is new, or is gone."""

    vdu: str
    vnfc_id: str
    old: str | None
    """Name of the pod before; None: the entry is new."""
    new: str | None
    """Name of the pod now; None: the entry is gone."""


class VnfSyncReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one instance; of a dry run, what the outcome would have been."""

    state: str
    """Of the instance as a whole, as its field ``state`` has it."""
    changed: bool
    """Whether there was something to write."""
    vdu_results: dict[str, dict[str, Any]]
    """VDU -> ``result`` (:class:`~watcher_sync.model.vnf.evaluation.Result`), and what else was seen."""
    differences: list[ReportedDifference]
    pods: list[ReportedPod]
