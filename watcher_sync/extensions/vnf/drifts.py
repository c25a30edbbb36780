# SPDX-License-Identifier: Apache-2.0
"""The VNF instances whose pods match no level, as drifts in ``/v1/drifts?levels=true``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.extension import DriftCause
from watcher_sync.extensions.vnf.level_drifts import KIND, STATES, LevelDrift, list_level_drifts
from watcher_sync.extensions.vnf.model.evaluation import Result
from watcher_sync.storage.database.pages import DecodedPage
from watcher_sync.storage.schema.tables import Tables

_MEANING: Final[Mapping[str, str]] = {
    "DRIFTED": "The number of pods is between two levels.",
    "OUT_OF_RANGE": "The number of pods is below the minimum or above the maximum.",
    "UNRESOLVED": "A workload of the registration does not exist in the cluster, or is being deleted.",
    "HELD_BACK": "An operation failed and is not resolved, so the instance is not synced.",
}
_NOT_RUNNING: Final = (
    "Pods that a workload wants do not run.",
    "Find out why they do not run. The workload wants the right number, so do not scale it.",
)
_REMEDY: Final[Mapping[str, str]] = {
    "DRIFTED": "Scale the workload to a level, or register the levels that it has.",
    "OUT_OF_RANGE": "Scale the workload into its range, or register another range.",
    "UNRESOLVED": "Create the workload, or register its name.",
    "HELD_BACK": "End a new operation COMPLETED or ROLLED_BACK, or register the instance again.",
}


def _page(
    connection: sa.Connection, tables: Tables, after: str, limit: int, cluster: str | None, project_id: str | None
) -> DecodedPage[dict[str, Any]]:
    found = list_level_drifts(connection, tables, after=after, limit=limit, cluster=cluster, project_id=project_id)
    return DecodedPage(map(_document, found.rows), found.more)


def _document(drift: LevelDrift) -> dict[str, Any]:
    summary, remedy = _explain(drift)
    return {
        "id": None,
        "cause": LEVEL.name,
        "kind": KIND,
        "entity_id": drift.id,
        "name": drift.name,
        "field": "state",
        "model_value": "SYNCED",
        "live_value": drift.state,
        "policy": "observe",
        "source": drift.cluster or "",
        "since": drift.since,
        "summary": summary,
        "remedy": remedy,
    }


def _explain(drift: LevelDrift) -> tuple[str, str]:
    """What differs, and what to do."""
    found = {
        vdu: result
        for vdu, result in drift.vdu_results.items()
        if isinstance(result, dict) and result.get("result") in STATES
    }
    details = "; ".join(f"{vdu}: {result.get('detail') or result['result']}" for vdu, result in found.items())
    meaning, remedy = _MEANING[drift.state], _REMEDY[drift.state]
    # Only a VDU whose pods do not settle has a time.
    if drift.state == Result.DRIFTED.value and any("since" in result for result in found.values()):
        meaning, remedy = _NOT_RUNNING
    return f"{meaning} {details}".strip(), remedy


LEVEL: Final = DriftCause(
    name="level",
    parameter="levels",
    kind=KIND,
    fields=frozenset({"name", "state", "vdu_results", "cluster"}),
    page=_page,
    entities="the VNF instances that are at no level",
    members={
        "id": "null: a VNF instance that is at no level.",
        "model_value": "Of a level: the state SYNCED.",
        "live_value": "Of a level: the state of the instance.",
        "policy": "Of a level: observe, because no cluster is changed.",
        "source": "Of a level: the cluster.",
    },
)
"""The cause ``level``."""
