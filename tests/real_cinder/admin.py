# SPDX-License-Identifier: Apache-2.0
"""A client of Cinder's API for the tests: a token and JSON over HTTP, and nothing of the reconciler's way."""

from __future__ import annotations

from typing import Any

import requests

from tests.real_nova.admin import Admin

VERSION = "3.71"
"""Microversion of all requests."""


class CinderAdmin(Admin):
    """Requests of one user. One thread."""

    as_service = False
    """Send the token as that of a service, too, as Nova does."""

    def call(self, method: str, service: str, path: str, body: Any = None, version: str = VERSION) -> Any:
        return super().call(method, service, path, body, version)

    def get(self, service: str, path: str, version: str = VERSION) -> Any:
        return self.call("GET", service, path, version=version)

    def post(self, service: str, path: str, body: Any, version: str = VERSION) -> Any:
        return self.call("POST", service, path, body, version)

    def pools_of_scheduler(self) -> list[dict[str, Any]]:
        """The pools, with their capabilities."""
        return list(self.get("cinder", "/v3/scheduler-stats/get_pools?detail=true")["pools"])

    def volume_type(self, name: str, specs: dict[str, str]) -> str:
        """Create a type. :returns: its id."""
        created = self.post("cinder", "/v3/types", {"volume_type": {"name": name, "extra_specs": specs}})
        return str(created["volume_type"]["id"])

    def _send(self, method: str, service: str, path: str, headers: dict[str, str], **body: Any) -> requests.Response:
        if self.as_service and "X-Auth-Token" in headers:
            headers = {**headers, "X-Service-Token": headers["X-Auth-Token"]}
        return super()._send(method, service, path, headers, **body)
