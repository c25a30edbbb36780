# SPDX-License-Identifier: Apache-2.0
"""What an operator reads, and what needs no token."""

from __future__ import annotations

import json
from typing import Any

from watcher_sync_tempest_plugin.services.base import WatcherSyncClient


class SiteClient(WatcherSyncClient):
    """``/v1/sources``, ``/v1/quarantine`` and ``/versions``."""

    def list_sources(self) -> Any:
        """The sources of all engines."""
        return self.send("GET", "sources")

    def list_quarantine(self) -> Any:
        """One page of the events that could not be applied."""
        return self.send("GET", "quarantine")

    def get_without_token(self, path: str) -> tuple[int, Any]:
        """The status and the document of an answer to a request without a token.

        :param path: from the root, such as ``/versions``.
        """
        response, text = self.raw_request(f"{self.base_url.rstrip('/')}{path}", "GET")
        return response.status, json.loads(text)
