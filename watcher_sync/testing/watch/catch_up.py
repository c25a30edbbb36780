# SPDX-License-Identifier: Apache-2.0
"""The REST twin of a fake watch service: ``GET /events{selfLink}`` with its paging, its query and its order."""

from __future__ import annotations

import http.server
import json
import re
import urllib.parse
from collections.abc import Callable
from typing import Any, NamedTuple

from watcher_sync.extensions.watch.wire import events_pb2
from watcher_sync.testing.watch.topic import FakeTopic

_TYPES = {
    events_pb2.Event.CREATED: "ResourceCreated",
    events_pb2.Event.UPDATED: "ResourceUpdated",
    events_pb2.Event.DELETED: "ResourceDeleted",
    events_pb2.Event.SUBRESOURCEUPDATED: "ResourceSubResourceUpdated",
}
MAX_PAGE_SIZE = 1_000
"""What the service announces, unless it is stock."""
_QUERY = re.compile(r"sequenceID>(\d+)")


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes = b"[]"
    headers: tuple[tuple[str, str], ...] = ()


class Asked(NamedTuple):
    """A request: its path, its parameters and its headers."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]


def document_of(event: events_pb2.Event, *, is_stock: bool = False) -> dict[str, Any]:
    """An event as JSON. A stock service has none of our additions."""
    payload, meta = event.payload, event.metadata
    resource = payload.metadata
    ours = {"prevSequenceID": meta.prevSequenceID, "versions": dict(meta.versions), "unset": list(meta.unset)}
    return {
        "id": event.id,
        "time": event.time,
        "version": event.version,
        "product": event.product,
        "correlationId": event.correlationId,
        "organization": {"id": event.organization.id},
        "type": _TYPES[event.type],
        "payload": {
            "group": payload.group,
            "kind": payload.kind,
            "name": payload.name,
            "metadata": {
                "id": resource.id,
                "scope": {
                    "id": resource.scope.id,
                    "kind": resource.scope.kind,
                    "name": resource.scope.name,
                    "selfLink": resource.scope.selfLink,
                },
                "selfLink": resource.selfLink,
                "references": [
                    {"id": each.id, "kind": each.kind, "name": each.name, "selfLink": each.selfLink, "type": "SOFT"}
                    for each in resource.references
                ],
            },
            "attributes": dict(payload.attributes),
        },
        "metadata": {
            "watchTopicID": meta.watchTopicID,
            "watchTopicSelfLink": meta.watchTopicSelfLink,
            "sequenceID": meta.sequenceID,
            "subresource": meta.subresource,
            **({} if is_stock else ours),
        },
    }


def answer(topic: FakeTopic, asked: Asked, *, is_stock: bool) -> tuple[Answer, int]:
    """Answers a request.

    :returns: the answer, and the last sequence that the client now knows.
    """
    if asked.path != f"/events{topic.self_link}":
        return Answer(404, b"{}"), 0
    found = _QUERY.fullmatch(asked.query.get("query", "sequenceID>0"))
    if found is None:
        return Answer(400, b"{}"), 0
    after = int(found[1])
    size, number = int(asked.query.get("pageSize", "100")), int(asked.query.get("page", "1"))
    if after > 0 and topic.is_purged(after):
        return Answer(410, b"{}", (("X-Axway-Max-Sequence-Id", str(topic.head)),)), 0
    events = topic.newer(after, 1_000_000)
    if asked.query.get("sort", "sequenceID,ASC").endswith(",DESC"):
        events = events[::-1]
    page = events[(number - 1) * size : number * size]
    known = max([after, *(each.metadata.sequenceID for each in page)])
    body = json.dumps([document_of(each, is_stock=is_stock) for each in page]).encode()
    return Answer(200, body, () if is_stock else (("X-Watcher-Sync-Max-Page-Size", str(MAX_PAGE_SIZE)),)), known


def handler_class(serve: Callable[[Asked], Answer]) -> type[http.server.BaseHTTPRequestHandler]:
    """The handler of an HTTP server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found = serve(Asked(parts.path, query, headers))
            self.send_response(found.status)
            for name, value in (*found.headers, ("Content-Length", str(len(found.body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    return Handler
