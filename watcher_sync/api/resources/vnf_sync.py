# SPDX-License-Identifier: Apache-2.0
"""``/v1/vnf_instances/{id}/sync``: one instance is held against its cluster now, without waiting for the interval.

The work itself is done by whatever the application was made with (:class:`SyncNow`). An application that was made
without it, or that has no source for the instance's cluster, answers 503: another worker may have one.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from watcher_sync.api.core import schemas
from watcher_sync.api.core.operation import Answer, Call, Rule, operation
from watcher_sync.api.core.problems import Problem
from watcher_sync.api.resources.entities import Collection
from watcher_sync.api.resources.writing import WRITER
from watcher_sync.exceptions import SourceError
from watcher_sync.model.vnf.evaluation import Result
from watcher_sync.model.vnf.reports import SyncReport


class SyncNow(Protocol):
    """Reconciles single instances. Used by all threads of the process."""

    def run(self, entity_id: str, *, dry_run: bool) -> SyncReport:
        """Read the cluster, compare, and write what differs.

        :param dry_run: write nothing, and look whoever holds the operation lease.
        :raises KeyError: there is no such instance.
        :raises OperationRunning: another holds its operation lease; never in a dry run.
        :raises SourceError: its cluster is not configured in this process, or cannot be reached.
        """


_POD_NAME = schemas.nullable(schemas.STRING)

REPORT: schemas.Schema = {
    "type": "object",
    "required": ["vnf_instance_id", "dry_run", "state", "changed", "vdu_results", "differences", "pods"],
    "additionalProperties": False,
    "properties": {
        "vnf_instance_id": schemas.STRING,
        "dry_run": {"type": "boolean", "description": "Whether nothing was written."},
        "state": schemas.STRING | {"description": "Of the instance as a whole."},
        "changed": {
            "type": "boolean",
            "description": "Whether there was something to write; in a dry run, whether there would have been.",
        },
        "vdu_results": {
            "type": "object",
            "description": "VDU -> its result and what else was seen of it.",
            "additionalProperties": {
                "type": "object",
                "required": ["result"],
                "properties": {"result": {"enum": [r.value for r in Result]}},
            },
        },
        "differences": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "model_value", "live_value"],
                "properties": {"field": schemas.STRING, "model_value": {}, "live_value": {}},
            },
        },
        "pods": {
            "type": "array",
            "description": "Entries of vnfcResourceInfo with another pod, new ones (old: null), gone ones (new: null).",
            "items": {
                "type": "object",
                "required": ["vdu", "vnfc_id", "old", "new"],
                "properties": {
                    "vdu": schemas.STRING,
                    "vnfc_id": schemas.STRING,
                    "old": _POD_NAME,
                    "new": _POD_NAME,
                },
            },
        },
    },
}


class VnfSyncResource:
    """``/v1/vnf_instances/{id}/sync``."""

    def __init__(self, collection: Collection, sync: SyncNow | None) -> None:
        """:param sync: None: this process syncs nothing."""
        kind = collection.kind
        self._collection = collection
        self._sync = sync
        self.on_post = operation(
            summary="Sync a VNF instance now",
            description="Reads the instance's cluster, compares, and writes what differs; nothing in the cluster is "
            "changed. While an operation holds the instance: 409, except for a dry run. 503: the cluster cannot be "
            "reached, or this server has no source for it.",
            rule=Rule(f"{kind.plural}:sync", WRITER),
            query={
                "dry_run": {
                    "type": "boolean",
                    "default": False,
                    "description": "Report what would be written, and write nothing.",
                }
            },
            responses={200: Answer(REPORT, "What was found")},
            errors=(404, 409),
            tag=kind.plural,
        )(self.sync)

    def sync(self, call: Call, entity_id: str) -> None:
        """Sync, and answer with the report."""
        collection = self._collection
        collection.require_existing(entity_id)
        if self._sync is None:
            raise Problem(503, "This server does not sync; it has no source for any cluster")
        dry_run: bool = call.query["dry_run"]
        try:
            report = self._sync.run(entity_id, dry_run=dry_run)
        except KeyError:
            collection.require_existing(entity_id)  # it may have been deleted meanwhile; else it is a bug
            raise
        except SourceError as exc:
            raise Problem(503, f"{collection.kind.name} {entity_id} cannot be synced now: {exc}") from None
        call.answer({"vnf_instance_id": entity_id, "dry_run": dry_run, **msgspec.structs.asdict(report)})
