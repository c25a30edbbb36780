# SPDX-License-Identifier: Apache-2.0
"""A client of the cloud's APIs for the tests: a token and JSON over HTTP, and nothing of the reconciler's way.

:class:`Admin` sends a request to a service with the microversion that the caller names, and returns the document. It
knows no resource. One thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import requests

COMPUTE_VERSION = "2.96"
"""Microversion of Nova's API for everything but hypervisors."""

HYPERVISOR_VERSION = "2.87"
"""The last one whose list of hypervisors asks no compute service."""

_TIMEOUT_SECONDS = 60


class Refused(Exception):
    """The service answered with an error."""

    def __init__(self, what: str, status: int, text: str) -> None:
        super().__init__(f"{what}: {status}: {text[:500]}")
        self.status = status


class Admin:
    """Requests of the administrator.

    :param urls: service -> root of its API.
    """

    def __init__(self, urls: dict[str, str], user: str, password: str, project: str) -> None:
        self._urls = urls
        self._login = (user, password, project)
        self._session = requests.Session()
        # The services are on loopback; no proxy of the environment is between.
        self._session.trust_env = False
        self._token: str | None = None
        self.requests = 0
        """How many were sent, without the login."""

    def get(self, service: str, path: str, version: str = COMPUTE_VERSION) -> Any:
        return self.call("GET", service, path, version=version)

    def post(self, service: str, path: str, body: Any, version: str = COMPUTE_VERSION) -> Any:
        return self.call("POST", service, path, body, version)

    def call(self, method: str, service: str, path: str, body: Any = None, version: str = COMPUTE_VERSION) -> Any:
        """The document of the answer; None: it has none.

        :raises Refused: the service answered with an error.
        """
        self.requests += 1
        if self._token is None:
            self._token = self._log_in()
        headers = {"X-Auth-Token": self._token, **_version_headers(service, version)}
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/octet-stream"
            answer = self._send(method, service, path, headers, data=body)
        else:
            answer = self._send(method, service, path, headers, json=body)
        return answer.json() if answer.content else None

    def pages(self, service: str, path: str, key: str, version: str = COMPUTE_VERSION) -> Iterator[Any]:
        """All items of a list of Nova's, over all its pages."""
        marker = ""
        while True:
            page = self.get(service, f"{path}{'&' if '?' in path else '?'}limit=500{marker}", version)[key]
            yield from page
            if len(page) < 500:
                return
            marker = f"&marker={page[-1]['id']}"

    def _send(self, method: str, service: str, path: str, headers: dict[str, str], **body: Any) -> requests.Response:
        url = f"{self._urls[service]}{path}"
        answer = self._session.request(method, url, headers=headers, timeout=_TIMEOUT_SECONDS, **body)
        if answer.status_code >= 400:
            raise Refused(f"{method} {service} {path}", answer.status_code, answer.text)
        return answer

    def _log_in(self) -> str:
        user, password, project = self._login
        domain = {"name": "Default"}
        identity = {
            "methods": ["password"],
            "password": {"user": {"name": user, "password": password, "domain": domain}},
        }
        body = {"auth": {"identity": identity, "scope": {"project": {"name": project, "domain": domain}}}}
        return self._send("POST", "keystone", "/v3/auth/tokens", {}, json=body).headers["X-Subject-Token"]


def _version_headers(service: str, version: str) -> dict[str, str]:
    if service in ("nova", "nova-soft"):
        return {"OpenStack-API-Version": f"compute {version}"}
    if service == "cinder":
        return {"OpenStack-API-Version": f"volume {version}"}
    if service == "placement":
        return {"OpenStack-API-Version": "placement 1.39"}
    return {}
