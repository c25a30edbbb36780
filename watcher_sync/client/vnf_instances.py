# SPDX-License-Identifier: Apache-2.0
"""The methods of the client that write VNF instances: registration, operations, sync.

A caller reads VNF instances like every other kind: ``client.entities("vnf_instance")``,
``client.stored("vnf_instance", vnf_id)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watcher_sync.client import models
from watcher_sync.client.models import Entity
from watcher_sync.client.operations import Operation
from watcher_sync.client.paging import Reading
from watcher_sync.client.transport import segment

VNF_INSTANCES = "/v1/vnf_instances"

EXISTING = "*"
"""For ``if_match``: the entity must exist, with any ETag."""

_CLUSTER_TIMEOUT_SECONDS = 60.0
"""How long a sync may read the cluster, in addition to the timeout of every answer."""


class VnfCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` that writes VNF instances."""

    def register_vnf_instance(self, values: Mapping[str, Any], *, replace: bool = False) -> models.Stored:
        """Registers a VNF instance.

        :param values: ``cluster``, ``vnfd_id``, ``vdus``, and optionally ``id``, ``name``, ``namespace``,
            ``flavour_id``, ``aspects``, ``vnf_provider``, ``vnf_product_name``, ``vnf_software_version``,
            ``vnfd_version``, ``ext_cp_info``, ``sync_after_failure``, ``project_id``.
        :param replace: whether the id may be that of a deleted instance.
        :raises BadRequest: when a field is invalid; ``errors`` names it.
        :raises Conflict: when the id belongs or belonged to another instance.
        """
        query = {"replace": True} if replace else None
        answer = self._transport.request("POST", VNF_INSTANCES, body=values, query=query)
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def replace_vnf_instance(
        self,
        vnf_id: str,
        values: Mapping[str, Any],
        *,
        if_match: str | None = None,
        token: int | None = None,
        secret: str | None = None,
    ) -> models.Stored:
        """Registers a VNF instance, or replaces its registration. A field that ``values`` lacks gets its default.

        The observed fields and, unless it is given, the project are unchanged.

        :param if_match: the expected ETag; ``*``: the instance must exist; None: any.
        :param token: the token of the caller's own operation on the instance.
        :param secret: the secret of this operation.
        :raises BadRequest: when a field is invalid; ``errors`` names it.
        :raises PreconditionFailed: when the instance has another ETag, or does not exist.
        :raises Conflict: when another operation holds the instance, or the id belonged to a deleted instance.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}"
        headers = _conditions(if_match, token, secret)
        answer = self._transport.request("PUT", path, body=values, headers=headers, confidential=secret is not None)
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def delete_vnf_instance(
        self, vnf_id: str, *, if_match: str | None = None, token: int | None = None, secret: str | None = None
    ) -> None:
        """Deletes the registration of a VNF instance. The cluster is not changed.

        :param if_match: the expected ETag; None: any.
        :param token: the token of the caller's own operation on the instance.
        :param secret: the secret of this operation.
        :raises NotFound: when there is none with this id.
        :raises PreconditionFailed: when the instance has another ETag.
        :raises Conflict: when another operation holds the instance.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}"
        headers = _conditions(if_match, token, secret)
        self._transport.request("DELETE", path, headers=headers, confidential=secret is not None)

    def sync_vnf_instance(self, vnf_id: str, *, dry_run: bool = False) -> models.SyncReport:
        """Compares a VNF instance with its cluster now, and writes the differences to the model.

        :param dry_run: report the differences and write nothing, even while an operation holds the instance.
        :raises NotFound: when there is none with this id.
        :raises Conflict: when an operation holds it; ``document`` names the holder, see ``retry_after``. Or when a
            failed operation holds its sync back; then ``document`` has ``failed_operation``.
        :raises Unavailable: when its cluster is unavailable, or the server has no source for it.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}/sync"
        query = {"dry_run": dry_run}
        return self._transport.request("POST", path, query=query, wait=_CLUSTER_TIMEOUT_SECONDS).read(models.SyncReport)

    def operation(self, vnf_id: str, operation: str, holder: str | None = None) -> Operation:
        """A life-cycle operation on a VNF instance, as a ``with`` block; see :mod:`watcher_sync.client.operations`.

        :param operation: the kind of work, such as SCALE.
        :param holder: name of the holder; the API shows it to others. Host and process id by default.
        """
        return Operation(self._transport, _operations(vnf_id), operation, holder)

    def begin_operation(self, vnf_id: str, operation: str, holder: str) -> models.BegunOperation:
        """Begins an operation without a ``with`` block: the caller sends the heartbeats and ends it.

        Only this answer has the ``secret``, which the other methods need.

        :raises NotFound: when there is no such instance.
        :raises Conflict: when another operation holds the instance; ``document`` names its holder, see ``retry_after``.
        """
        body = {"operation": operation, "holder": holder}
        answer = self._transport.request("POST", _operations(vnf_id), body=body, confidential=True)
        return answer.read(models.BegunOperation)

    def heartbeat(
        self, vnf_id: str, operation_id: str, *, secret: str, token: int | None = None
    ) -> models.VnfOperation:
        """Extends the lease of an operation by the full lease time.

        :param secret: the operation's secret.
        :param token: the expected token; None: any.
        :raises Forbidden: when the secret is wrong, or the operation belongs to another user.
        :raises NotFound: when there is no such operation.
        :raises Conflict: when the operation has ended, or another operation holds the lease.
        :raises PreconditionFailed: when the operation has another token.
        """
        body = {} if token is None else {"token": token}
        path = f"{_operations(vnf_id)}/{segment(operation_id)}"
        headers = _conditions(None, None, secret)
        answer = self._transport.request("PUT", path, body=body, headers=headers, confidential=True)
        return answer.read(models.VnfOperation)

    def end_operation(
        self,
        vnf_id: str,
        operation_id: str,
        *,
        secret: str | None = None,
        token: int | None = None,
        state: str = "COMPLETED",
        force: bool = False,
    ) -> None:
        """Ends an operation, which releases the lease.

        :param secret: the operation's secret.
        :param token: the expected token; None: any.
        :param state: COMPLETED, ROLLED_BACK, FAILED_TEMP or FAILED.
        :param force: end the operation of another holder, without its secret; for administrators.
        :raises Forbidden: when the secret is wrong, or the operation belongs to another user.
        :raises NotFound: when there is no such operation.
        :raises Conflict: when the operation has ended in another state, or another operation holds the lease.
        :raises PreconditionFailed: when the operation has another token.
        """
        query = {"state": state, "token": token, "force": force or None}
        headers = _conditions(None, None, secret)
        path = f"{_operations(vnf_id)}/{segment(operation_id)}"
        self._transport.request("DELETE", path, query=query, headers=headers, confidential=secret is not None)

    def shown_operation(self, vnf_id: str, operation_id: str) -> models.VnfOperation:
        """One operation, running or ended.

        :raises NotFound: when there is no such operation.
        """
        path = f"{_operations(vnf_id)}/{segment(operation_id)}"
        return self._transport.request("GET", path).read(models.VnfOperation)


def _operations(vnf_id: str) -> str:
    return f"{VNF_INSTANCES}/{segment(vnf_id)}/operations"


def _conditions(if_match: str | None, token: int | None, secret: str | None) -> dict[str, str]:
    """The headers of a conditional write."""
    headers = {
        "If-Match": if_match,
        "Operation-Token": None if token is None else str(token),
        "Operation-Secret": secret,
    }
    return {name: value for name, value in headers.items() if value is not None}
