# SPDX-License-Identifier: Apache-2.0
"""Operations on VNF instances, each with a lease."""

from __future__ import annotations

from typing import Any

from watcher_sync_tempest_plugin.services.base import WatcherSyncClient, segment


class OperationsClient(WatcherSyncClient):
    """``/v1/vnf_instances/{id}/operations``."""

    def begin_operation(self, vnf_id: str, operation: str, holder: str) -> Any:
        """Take the lease. The answer alone has the ``secret``.

        :raises Conflict: another operation runs.
        """
        return self.send("POST", _path(vnf_id), 201, body={"operation": operation, "holder": holder})

    def list_operations(self, vnf_id: str) -> Any:
        """The operations, running and ended."""
        return self.send("GET", _path(vnf_id))

    def send_heartbeat(self, vnf_id: str, operation: dict[str, Any], **changed: Any) -> Any:
        """Extend the lease.

        :param operation: the answer of the beginning.
        :param changed: members of it that the request has otherwise.
        """
        shown = {**operation, **changed}
        headers, body = {"Operation-Secret": shown["secret"]}, {"token": shown["token"]}
        return self.send("PUT", f"{_path(vnf_id)}/{operation['id']}", headers=headers, body=body)

    def end_operation(self, vnf_id: str, operation: dict[str, Any], state: str = "COMPLETED") -> Any:
        """Release the lease."""
        headers = {"Operation-Secret": operation["secret"]}
        return self.send("DELETE", f"{_path(vnf_id)}/{operation['id']}", 204, headers=headers, query={"state": state})

    def force_end_operation(self, vnf_id: str, operation_id: str) -> Any:
        """Release the lease of another owner."""
        return self.send("DELETE", f"{_path(vnf_id)}/{operation_id}", 204, query={"force": "true", "state": "FAILED"})


def _path(vnf_id: str) -> str:
    return f"vnf_instances/{segment(vnf_id)}/operations"
