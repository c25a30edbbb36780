# SPDX-License-Identifier: Apache-2.0
"""Subscriptions to the changes of an instance."""

from __future__ import annotations

from typing import Any

from watcher_sync_tempest_plugin.services.base import WatcherSyncClient, segment


class SubscriptionsClient(WatcherSyncClient):
    """``/v1/instance/{id}/status/subscription``."""

    def create_subscription(self, instance_id: str, name: str, callback_url: str, **members: Any) -> Any:
        """Subscribe."""
        body = {"name": name, "callback-url": callback_url, **members}
        return self.send("POST", _path(instance_id), 201, body=body)

    def list_subscriptions(self, instance_id: str) -> Any:
        """The subscriptions of an instance."""
        return self.send("GET", _path(instance_id))

    def show_subscription(self, instance_id: str, name: str) -> Any:
        """One subscription."""
        return self.send("GET", f"{_path(instance_id)}/{segment(name)}")

    def delete_subscription(self, instance_id: str, name: str) -> Any:
        """Unsubscribe."""
        return self.send("DELETE", f"{_path(instance_id)}/{segment(name)}", 202)


def _path(instance_id: str) -> str:
    return f"instance/{segment(instance_id)}/status/subscription"
