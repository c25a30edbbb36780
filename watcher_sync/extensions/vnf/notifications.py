# SPDX-License-Identifier: Apache-2.0
"""Notifications about syncs and drifts of VNF instances, for listeners on the message bus.

Every method returns at once and raises nothing; see :mod:`watcher_sync.reconcile.notify`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.reconcile.base import FieldDifference
from watcher_sync.reconcile.notify import Notifications

SYNC_START: Final = "vnf_instance.sync.start"
SYNC_END: Final = "vnf_instance.sync.end"
SYNC_ERROR: Final = "vnf_instance.sync.error"
DRIFT: Final = "vnf_instance.drift"

MOST_DIFFERENCES: Final = 20
"""Differences in one payload; its ``count`` is the number of all."""
_LONGEST_VALUE: Final = 200
"""Bytes of a value's JSON; a longer value is left out."""


class VnfNotifications:
    """Sends notifications about VNF instances. For any thread."""

    def __init__(self, notifications: Notifications) -> None:
        self._put = notifications.put

    def sync_start(self, vnf: VnfInstance) -> None:
        """The sync of an instance begins."""
        self._put("info", SYNC_START, _about(vnf))

    def sync_end(self, vnf: VnfInstance, results: Mapping[str, str], pods: Mapping[str, int]) -> None:
        """The sync of an instance ended.

        :param results: VDU -> such as SYNCED or NO_DIFF.
        :param pods: VDU -> how many pods count.
        """
        self._put("info", SYNC_END, {**_about(vnf), "results": dict(results), "pods": dict(pods)})

    def sync_error(self, vnf: VnfInstance, why: str) -> None:
        """The sync of an instance failed.

        :param why: one sentence.
        """
        self._put("error", SYNC_ERROR, {**_about(vnf), "why": why})

    def drift(self, vnf: VnfInstance, differences: Collection[FieldDifference]) -> None:
        """The instance differs from what runs."""
        shown = [_difference(difference) for difference in list(differences)[:MOST_DIFFERENCES]]
        self._put("warn", DRIFT, {**_about(vnf), "count": len(differences), "differences": shown})


def _about(vnf: VnfInstance) -> dict[str, Any]:
    return {"id": vnf.id, "name": vnf.name, "cluster": vnf.cluster, "namespace": vnf.namespace}


def _difference(difference: FieldDifference) -> dict[str, Any]:
    shown: dict[str, Any] = {"field": difference.field, "policy": difference.policy}
    values: Sequence[tuple[str, Any]] = (
        ("model_value", difference.model_value),
        ("live_value", difference.live_value),
    )
    for name, value in values:
        text = msgspec.json.encode(value)
        if len(text) <= _LONGEST_VALUE:
            shown[name] = msgspec.json.decode(text)
    return shown
