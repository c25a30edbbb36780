# SPDX-License-Identifier: Apache-2.0
"""Evaluates one VNF instance on a view and makes the change of its facet ``observed``.

It is no plugin of the dispatch: no event type leads here. The commit cycle calls it after the events of a batch were
dispatched, with the batch's transaction as the view. Reconciliation and the API's sync call it with other views.
It does no I/O and has no state.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from watcher_sync.events import Event
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.evaluation import (
    EvaluationContext,
    Observation,
    Result,
    Unlisted,
    evaluate,
    new_uuid,
)
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.view import View

KIND: Final = "vnf_instance"
SYNCED: Final = "vnf_instance.synced"
"""Type of the event that is recorded as the cause of the change."""
HELD_BACK: Final = "HELD_BACK"
"""State of an instance whose sync waits until a failed operation is resolved."""


class SettlingSettings(Protocol):
    """The options of ``[reconcile]`` that an evaluation needs, as they are now."""

    settling_limit: float
    """Seconds that a VDU may be SETTLING."""


class VnfHandler:
    """Evaluates VNF instances. For any thread."""

    def __init__(
        self,
        settings: SettlingSettings,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        new_id: Callable[[], str] = new_uuid,
    ) -> None:
        """:param now: aware UTC; becomes ``observed_at``.

        :param new_id: makes the ids of new entries of vnfcResourceInfo.
        """
        self._settings = settings
        self._now = now
        self._new_id = new_id

    def evaluate(self, view: View, vnf: VnfInstance, unknown: Mapping[str, Unlisted]) -> Observation:
        """Compare an instance with the workloads and pods of a view. A failed operation leaves all but the state.

        :param unknown: kind of objects -> why it is not known which ones exist.
        """
        if vnf.failed_operation is not None:
            return _held_back(vnf)
        return evaluate(view, vnf, unknown, EvaluationContext(self._now(), self._settings.settling_limit, self._new_id))

    def change(
        self, vnf: VnfInstance, observation: Observation, version: Version, *, source: str
    ) -> tuple[Event, Upsert]:
        """The cause event and the change that write an observation.

        :param version: newer than every version that the instance has.
        :param source: name of the source that the news comes from; the journal shows it.
        """
        now = self._now()
        cause = Event(id=str(uuid.uuid4()), type=SYNCED, source=source, subject=vnf.id, time=now)
        return cause, Upsert(KIND, vnf.id, version, {"observed": {**observation.changes, "observed_at": now}})


def _held_back(vnf: VnfInstance) -> Observation:
    """Return what is stored, with the state HELD_BACK."""
    changes = {} if vnf.state == HELD_BACK else {"state": HELD_BACK}
    return Observation(
        values={
            "state": HELD_BACK,
            "scale_level": vnf.scale_level or {},
            "observed": vnf.observed or {},
            "vdu_results": vnf.vdu_results or {},
            "vnfc_resource_info": vnf.vnfc_resource_info or [],
        },
        changes=changes,
        changed=bool(changes),
        results=dict.fromkeys(vnf.vdu_results or {}, Result.SKIPPED_LCM),
        pods=(),
    )
