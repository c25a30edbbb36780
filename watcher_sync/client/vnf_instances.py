# SPDX-License-Identifier: Apache-2.0
"""What can be done to VNF instances: register them, take them for an operation, sync them now.

They are read like every other kind: ``client.entities("vnf_instance")``, ``client.stored("vnf_instance", vnf_id)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watcher_sync.client import models
from watcher_sync.client.models import Entity
from watcher_sync.client.operations import Operation
from watcher_sync.client.transport import Transport, segment

VNF_INSTANCES = "/v1/vnf_instances"

EXISTING = "*"
"""For ``if_match``: whatever its version is, there has to be one."""

_CLUSTER_TIME = 60.0
"""Seconds for which a sync may be busy with the cluster, beyond what an answer may take anyway."""


class VnfCalls:
    """The part of :class:`~watcher_sync.client.client.Client` that is about VNF instances."""

    _transport: Transport

    def register_vnf_instance(self, values: Mapping[str, Any]) -> models.Stored:
        """Register one.

        :param values: ``cluster``, ``namespace``, ``vnfd_id``, ``vdus``, and as wanted ``id``, ``name``,
            ``flavour_id``, ``aspects``.
        :raises BadRequest: naming the fields that make no sense.
        :raises Conflict: when the id is or was taken.
        """
        answer = self._transport.request("POST", VNF_INSTANCES, body=values)
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def replace_vnf_instance(
        self, vnf_id: str, values: Mapping[str, Any], *, if_match: str | None = None, token: int | None = None
    ) -> models.Stored:
        """Register one, or replace its registration; what is left out of ``values`` has no value afterwards.

        What was observed stays.

        :param if_match: the ETag that it must still have; ``*``: it must exist.
        :param token: of the caller's own operation on the instance.
        :raises BadRequest: naming the fields that make no sense.
        :raises PreconditionFailed: when it has another ETag, or does not exist.
        :raises Conflict: an operation of another holds it, or the id belonged to one that was deleted.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}"
        answer = self._transport.request("PUT", path, body=values, headers=_conditions(if_match, token))
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def delete_vnf_instance(self, vnf_id: str, *, if_match: str | None = None, token: int | None = None) -> None:
        """Forget one; nothing in the cluster is touched.

        :param if_match: the ETag that it must still have.
        :param token: of the caller's own operation on the instance.
        :raises NotFound: when there is none with this id.
        :raises PreconditionFailed: when it has another ETag.
        :raises Conflict: an operation of another holds it.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}"
        self._transport.request("DELETE", path, headers=_conditions(if_match, token))

    def sync_vnf_instance(self, vnf_id: str, *, dry_run: bool = False) -> models.SyncReport:
        """Hold one against its cluster now.

        :param dry_run: tell what would be written, and write nothing; whoever holds the instance.
        :raises NotFound: when there is none with this id.
        :raises Conflict: an operation holds it; ``document`` says who has it, ``retry_after`` when to ask again.
        :raises Unavailable: its cluster cannot be reached, or the server has no source for it.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}/sync"
        query = {"dry_run": dry_run}
        return self._transport.request("POST", path, query=query, wait=_CLUSTER_TIME).read(models.SyncReport)

    def operation(self, vnf_id: str, operation: str, holder: str | None = None) -> Operation:
        """A life-cycle operation on a VNF instance, as a ``with`` block; see :mod:`watcher_sync.client.operations`.

        :param operation: what is done, such as SCALE.
        :param holder: who does it, shown to whoever comes second; this process unless given.
        """
        return Operation(self._transport, _operations(vnf_id), operation, holder)

    def begin_operation(self, vnf_id: str, operation: str, holder: str) -> models.VnfOperation:
        """Take a VNF instance, where a ``with`` block cannot be used: heartbeats and the end are the caller's.

        :raises NotFound: when there is no such instance.
        :raises Conflict: another holds it; ``document`` says who, ``retry_after`` when to ask again.
        """
        body = {"operation": operation, "holder": holder}
        return self._transport.request("POST", _operations(vnf_id), body=body).read(models.VnfOperation)

    def heartbeat(self, vnf_id: str, operation_id: str, *, token: int | None = None) -> models.VnfOperation:
        """Say that an operation goes on; its time begins anew.

        :param token: is compared, where it is given.
        :raises NotFound: when there is no such operation.
        :raises Conflict: it was ended, or another took over.
        :raises PreconditionFailed: that is not its token.
        """
        body = {} if token is None else {"token": token}
        path = f"{_operations(vnf_id)}/{segment(operation_id)}"
        return self._transport.request("PUT", path, body=body).read(models.VnfOperation)

    def end_operation(self, vnf_id: str, operation_id: str, *, token: int | None = None, failed: bool = False) -> None:
        """Give a VNF instance back.

        :param token: is compared, where it is given.
        :raises NotFound: when there is no such operation.
        :raises Conflict: it was ended in another way, or another took over.
        :raises PreconditionFailed: that is not its token.
        """
        query = {"state": "FAILED" if failed else "COMPLETED", "token": token}
        self._transport.request("DELETE", f"{_operations(vnf_id)}/{segment(operation_id)}", query=query)

    def shown_operation(self, vnf_id: str, operation_id: str) -> models.VnfOperation:
        """One operation, whatever became of it.

        :raises NotFound: when there is no such operation.
        """
        path = f"{_operations(vnf_id)}/{segment(operation_id)}"
        return self._transport.request("GET", path).read(models.VnfOperation)


def _operations(vnf_id: str) -> str:
    return f"{VNF_INSTANCES}/{segment(vnf_id)}/operations"


def _conditions(if_match: str | None, token: int | None) -> dict[str, str]:
    """The headers of a write."""
    headers = {"If-Match": if_match, "Operation-Token": None if token is None else str(token)}
    return {name: value for name, value in headers.items() if value is not None}
