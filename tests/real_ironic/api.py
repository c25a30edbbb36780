# SPDX-License-Identifier: Apache-2.0
"""A small client of Ironic's API, which asks as an operator does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import requests

from tests.real_nova.processes import wait_for
from tests.waiting import deadline

VERSION = "1.95"
"""The microversion of the requests."""

_SECONDS = 30.0


class Api:
    """The API.

    :param endpoint: its root.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._session = requests.Session()
        self._session.headers["X-OpenStack-Ironic-API-Version"] = VERSION

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The document of the answer; None: it has none.

        :raises AssertionError: the API refused the request.
        """
        url = f"{self._endpoint}/v1/{path}"
        answer = self._session.request(method, url, json=body, timeout=deadline(_SECONDS))
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def node(self, uuid: str) -> dict[str, Any]:
        """All fields of a node."""
        node: dict[str, Any] = self.request("GET", f"nodes/{uuid}")
        return node

    def create(self, collection: str, **fields: Any) -> str:
        """A new node, port or portgroup: its uuid."""
        return str(self.request("POST", collection, fields)["uuid"])

    def update(self, path: str, **fields: Any) -> None:
        """Set fields of a resource; None removes one."""
        patch: Sequence[dict[str, Any]] = [
            {"op": "remove", "path": f"/{name}"} if value is None else {"op": "add", "path": f"/{name}", "value": value}
            for name, value in fields.items()
        ]
        self.request("PATCH", path, patch)

    def provision(self, uuid: str, target: str, *expected: str, **more: Any) -> None:
        """Ask for a provision state, and wait until the node has one of the expected states and rests.

        :raises CloudBroken: it does not.
        """
        self.request("PUT", f"nodes/{uuid}/states/provision", {"target": target, **more})
        self.await_node(uuid, provision_state=expected)

    def power(self, uuid: str, target: str, expected: str) -> None:
        """Ask for a power state, and wait until the node has the expected one and rests."""
        self.request("PUT", f"nodes/{uuid}/states/power", {"target": target})
        self.await_node(uuid, power_state=(expected,))

    def await_node(self, uuid: str, **expected: Sequence[object]) -> None:
        """Wait until each field has one of the expected values, and no conductor has the node.

        :raises CloudBroken: they do not.
        """

        def rests() -> bool:
            node = self.node(uuid)
            has_all = all(node[name] in values for name, values in expected.items())
            return has_all and node["reservation"] is None and node["target_power_state"] is None

        wait_for(rests, _SECONDS, f"{expected} of {uuid}")
