# SPDX-License-Identifier: Apache-2.0
"""The server, and a client of plain HTTP that hides nothing."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from watcher_sync.testing.kubernetes import KubernetesServer

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = {"Content-Type": "application/merge-patch+json"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(gzip.decompress(self.raw) if self.headers.get("content-encoding") == "gzip" else self.raw)

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.json["items"]]


class Stream:
    """A watch."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def line(self) -> bytes:
        return self.response.readline()

    def event(self) -> tuple[str, dict[str, Any]]:
        event = json.loads(self.line())
        return event["type"], event["object"]

    def seen(self) -> tuple[str, str]:
        """The next event: its type, and the name of its object."""
        kind, obj = self.event()
        return kind, obj["metadata"].get("name", "")


class Client:
    def __init__(self, server: KubernetesServer, *, timeout: float = 60.0) -> None:
        where = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=timeout)

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Answer:
        response = self._response(method, path, body, headers, query)
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def watch(self, path: str = PODS, headers: dict[str, str] | None = None, **query: Any) -> Stream:
        response = self._response("GET", path, None, headers, {"watch": "true", **query})
        assert response.status == 200, response.read()
        return Stream(response)

    def _response(
        self, method: str, path: str, body: Any, headers: dict[str, str] | None, query: dict[str, Any]
    ) -> http.client.HTTPResponse:
        if query:
            path += "?" + urlencode({name.rstrip("_"): value for name, value in query.items()})
        self.connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        return self.connection.getresponse()


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        yield server


@pytest.fixture
def connect(server: KubernetesServer) -> Iterator[Callable[..., Client]]:
    """More connections, each a client."""
    with contextlib.ExitStack() as stack:

        def connected(**more: Any) -> Client:
            client = Client(server, **more)
            stack.callback(client.connection.close)
            return client

        yield connected


@pytest.fixture
def api(connect: Callable[..., Client]) -> Client:
    return connect()
