# SPDX-License-Identifier: Apache-2.0
"""``/v1/vnf_instances/{id}/sync``: compares one instance with its cluster now, without waiting for the interval.

Without a source for the instance's cluster, the answer is 503.
"""

from __future__ import annotations

import threading
from typing import Final, Protocol

import msgspec

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import Problem, lease_conflict
from watcher_sync.api.http.rules import PROJECT_MEMBER
from watcher_sync.events import Actor
from watcher_sync.exceptions import SourceError, SyncHeldBack
from watcher_sync.extensions.vnf.model.evaluation import Result, VnfSyncReport


class SyncNow(Protocol):
    """Reconciles single instances. Used by all threads of the process."""

    def run(self, entity_id: str, *, dry_run: bool, actor: Actor | None = None) -> VnfSyncReport:
        """Reads the cluster, compares it with the model, and writes the differences.

        :param dry_run: write nothing, and ignore the operation lease.
        :param actor: recorded as the writer of the changes.
        :raises KeyError: when there is no such instance.
        :raises OperationRunning: when an operation holds the instance; never in a dry run.
        :raises SyncHeldBack: when a failed operation holds its sync back; never in a dry run.
        :raises SourceError: when its cluster is unavailable, or not configured in this process.
        """


_MAX_SYNCS: Final = 8
"""Syncs of a process at one time. Each occupies a thread while it reads the cluster."""

_POD_NAME = schemas.nullable(schemas.STRING)

REPORT: schemas.Schema = {
    "type": "object",
    "required": ["vnf_instance_id", "dry_run", "state", "changed", "vdu_results", "differences", "pods"],
    "additionalProperties": False,
    "properties": {
        "vnf_instance_id": schemas.STRING,
        "dry_run": {"type": "boolean", "description": "Whether nothing was written."},
        "state": schemas.STRING | {"description": "The state of the whole instance."},
        "changed": {
            "type": "boolean",
            "description": "Whether the sync wrote a change; for a dry run, whether it would have written one.",
        },
        "vdu_results": {
            "type": "object",
            "description": "VDU -> its result and further observations.",
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
            "description": "Entries of vnfcResourceInfo with another pod, new (old: null), or removed (new: null).",
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
    """``/v1/vnf_instances/{id}/sync``: the sync of one instance."""

    def __init__(self, collection: Collection, sync: SyncNow) -> None:
        kind = collection.kind
        self._collection = collection
        self._sync = sync
        self._free = threading.BoundedSemaphore(_MAX_SYNCS)
        self.on_post = operation(
            summary="Sync a VNF instance now",
            description="Reads the instance's cluster, and writes the differences to the model. The cluster is not "
            "changed. While an operation holds the instance, or a failed one holds its sync back, the answer is 409, "
            "except for a dry run. It is 503 if the "
            "cluster is unavailable, this server has no source for it, or it runs too many syncs already.",
            rule=Rule(f"{kind.plural}:sync", PROJECT_MEMBER),
            query={
                "dry_run": {
                    "type": "boolean",
                    "default": False,
                    "description": "Report the differences, and write nothing.",
                }
            },
            responses={200: Answer(REPORT, "The report of the sync")},
            errors=(404, 409),
            tag=kind.plural,
        )(self.sync)

    def sync(self, call: Call, entity_id: str) -> None:
        """Syncs the instance, and answers with the report."""
        collection = self._collection
        collection.require_existing(call, entity_id)
        dry_run: bool = call.query["dry_run"]
        if not self._free.acquire(blocking=False):
            raise Problem(503, f"This process runs {_MAX_SYNCS} syncs already", headers={"Retry-After": "1"})
        try:
            report = self._sync.run(entity_id, dry_run=dry_run, actor=call.context.actor)
        except KeyError:
            # Another writer may have deleted it meanwhile. Otherwise it is a bug.
            collection.require_existing(call, entity_id)
            raise
        except SyncHeldBack as exc:
            raise lease_conflict(f"{collection.kind.name} {entity_id}: {exc}", failed_operation=exc.operation) from None
        except SourceError as exc:
            raise Problem(503, f"{collection.kind.name} {entity_id} cannot be synced now: {exc}") from None
        finally:
            self._free.release()
        call.answer({"vnf_instance_id": entity_id, "dry_run": dry_run, **msgspec.structs.asdict(report)})
