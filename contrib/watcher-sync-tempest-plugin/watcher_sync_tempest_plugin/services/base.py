# SPDX-License-Identifier: Apache-2.0
"""What the clients share: JSON requests below ``/v1``, and errors as problem details (RFC 9457)."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

from tempest.lib.common import rest_client


class WatcherSyncClient(rest_client.RestClient):
    """A client with the credentials of one user."""

    def send(
        self,
        method: str,
        path: str,
        expected: int = 200,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send a request.

        :param path: below ``/v1``.
        :param expected: status of the answer.
        :param body: what is sent as JSON; None: nothing.
        :returns: the document of the answer, empty if it has none.
        :raises RestClientException: Tempest's exception of the status of an error.
        """
        url = f"/v1/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        text = None if body is None else json.dumps(body)
        response, answer = self.request(method, url, headers={**self.get_headers(), **(headers or {})}, body=text)
        self.expected_success(expected, response.status)
        document = json.loads(answer) if answer else None
        kind = rest_client.ResponseBodyList if isinstance(document, list) else rest_client.ResponseBody
        return kind(response, document)

    def _error_checker(self, resp: Any, resp_body: Any) -> None:
        # Tempest parses errors of the type application/json only.
        if resp.get("content-type", "").startswith("application/problem+json"):
            resp["content-type"] = "application/json"
        super()._error_checker(resp, resp_body)


def segment(text: str) -> str:
    """A segment of a path."""
    return urllib.parse.quote(text, safe="")
