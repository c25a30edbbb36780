# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1: paths, bodies, chunks, compression, and the injected faults.

A watch occupies the thread of its connection until it ends. It notices within a second that its client has
disconnected.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from watcher_sync.testing.http.handler import Closed, Handler
from watcher_sync.testing.http.listener import Listener
from watcher_sync.testing.kubernetes import errors, patches
from watcher_sync.testing.kubernetes.api import KubernetesApi
from watcher_sync.testing.kubernetes.faults import Break, Close, ErrorEvent, RawLine, Request, Silence
from watcher_sync.testing.kubernetes.resources import PODS
from watcher_sync.testing.kubernetes.routing import Target, delete_options, list_query, target_of, verb_of, watch_query
from watcher_sync.testing.kubernetes.views import Table, view
from watcher_sync.testing.kubernetes.watching import Watch, error_line


class ApiHandler(Handler):
    """One connection to the API server."""

    server_version = "fake-kube-apiserver"

    def __init__(self, api: KubernetesApi, listener: Listener, *connection: Any) -> None:
        self.api = api
        self._members = False
        """Whether each chunk of a watch is a member of gzip, as from servers of Kubernetes 1.37 for a streamed list."""
        super().__init__(listener, *connection)

    def serve(self, body: bytes) -> None:
        split = urlsplit(self.path)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        target = target_of(self.api.registry, unquote(split.path))
        verb = verb_of(self.command, target, query)
        request = Request(verb, target.resource.plural if target else "", split.path, query, self.header_values())
        self.api.requests.note(request)
        cut: float | None = None
        try:
            self.api.authenticate(request)
            for action in self.api.request_faults.on_request(request):
                cut = self.act(action)
            if target is None:
                self._discovery(request.path)
            elif verb == "watch":
                self._watch(target, request)
            else:
                code, payload = self._operation(target, request, body)
                self._send(code, payload, cut=cut)
        except errors.ApiError as exc:
            if exc.page is not None:
                self._send(exc.code, exc.page, content_type="text/html")
            else:
                self._send(exc.code, msgspec.json.encode(exc.status()), headers=exc.headers)

    def _discovery(self, path: str) -> None:
        if self.command == "GET":
            if path == "/openapi/v2":
                # A document without definitions, in protobuf: clients skip the validation they would do with it.
                kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
                return self._send(200, b"", content_type=kind)
            if path.strip("/") in ("healthz", "readyz", "livez"):
                return self._send(200, b"ok", content_type="text/plain")
            document = self.api.registry.document(path)
            if document is not None:
                return self._send(200, msgspec.json.encode(document))
        raise errors.no_such_path()

    def _operation(self, target: Target, request: Request, body: bytes) -> tuple[int, bytes]:
        """:returns: the status and the body of the answer."""
        if request.verb == "list":
            return 200, self._list(target, request)
        if target.resource.namespaced and target.namespace is None:
            raise errors.method_not_allowed()
        if not target.name and request.verb in ("update", "patch"):
            raise errors.method_not_allowed()
        if target.subresource not in ("", "status", "scale", "eviction", "finalize"):
            raise errors.no_such_path()
        if target.subresource == "scale":
            return 200, self._scale(target, request, body)
        api, resource, name, inside = self.api, target.resource, target.name, target.inside
        shown = view(request.headers.get("accept", ""))
        subresource = target.subresource or None
        match request.verb:
            case "get":
                return 200, shown.one(api.store.get(resource, inside, name))
            case "create" if target.subresource == "eviction" and resource == PODS:
                api.writes.delete(api.store.get(resource, inside, name), _json(body).get("deleteOptions"))
                return 201, _success()
            case "create" if not target.name:
                return 201, shown.one(api.writes.create(resource, inside, _json(body)))
            case "update":
                item = api.writes.update(resource, inside, name, _json(body), subresource=subresource)
                return 200, shown.one(item)
            case "patch":
                media_type = request.headers.get("content-type", "").partition(";")[0]
                code = 200 if api.store.find(resource, inside, name) else 201  # an apply creates
                item = api.writes.patch(resource, inside, name, media_type, _json(body), subresource=subresource)
                return code, shown.one(item)
            case "delete":
                options = delete_options(request, _json(body) if body.strip() else None)
                item, gone = api.writes.delete(api.store.get(resource, inside, name), options)
                return 200, _success(item) if gone else shown.one(item)
            case "deletecollection":
                page = api.lists.page(resource, list_query(target, request))
                items = api.writes.delete_all(
                    page.items, delete_options(request, _json(body) if body.strip() else None)
                )
                return 200, shown.many(resource, items, page.metadata)
        raise errors.method_not_allowed()

    def _list(self, target: Target, request: Request) -> bytes:
        page = self.api.lists.page(target.resource, list_query(target, request))
        return view(request.headers.get("accept", "")).many(target.resource, page.items, page.metadata)

    def _scale(self, target: Target, request: Request, body: bytes) -> bytes:
        resource, inside, name, writes = target.resource, target.inside, target.name, self.api.writes
        if not resource.scalable:
            raise errors.no_such_path()
        if request.verb == "get":
            return msgspec.json.encode(writes.get_scale(resource, inside, name))
        given = _json(body)
        if request.verb == "update":
            return msgspec.json.encode(writes.put_scale(resource, inside, name, lambda scale: given))
        if request.verb == "patch":
            kind = request.headers.get("content-type", "").partition(";")[0]
            return msgspec.json.encode(
                writes.put_scale(resource, inside, name, lambda scale: patches.apply(kind, scale, given))
            )
        raise errors.method_not_allowed()

    def _watch(self, target: Target, request: Request) -> None:
        api = self.api
        query = watch_query(target, request)
        if query.initial_events is not None:
            if api.watch_list == "refused":
                raise errors.invalid(
                    "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList "
                    "feature gate is enabled"
                )
            if api.watch_list == "ignored":
                query.initial_events, query.match = None, ""
        query.timeout = query.timeout or api.watch_timeout
        shown = view(request.headers.get("accept", ""))
        interval = api.bookmark_interval
        watch = Watch(api.store, target.resource, query, shown, bookmark_interval=interval)
        self.send_response(200)
        self.send_header(
            "Content-Type", "application/json;stream=watch" if isinstance(shown, Table) else "application/json"
        )
        self.send_header("Transfer-Encoding", "chunked")
        self._members = bool(query.initial_events) and "gzip" in self.headers.get("Accept-Encoding", "")
        if self._members:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.flush()
        with api.requests.open_watch(request):
            if query.initial_events and api.watch_list == "unavailable":
                self._chunk(error_line(errors.no_watch_progress()))
            else:
                self._stream(watch, request, lambda: api.registry.by_path(*target.resource.place) is target.resource)
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _stream(self, watch: Watch, request: Request, is_served: Callable[[], bool]) -> None:
        """:param is_served: whether the type still exists. The stream ends with the deletions that its end caused."""
        faults, stopping = self.api.stream_faults, self.listener.stopping
        if not self._lines(list(watch.begin()), request):
            return
        goes_on = True
        while goes_on and not stopping.is_set():
            goes_on = is_served()
            try:
                lines = watch.wait(lambda: faults.due(request) or stopping.is_set() or not is_served())
            except errors.ApiError as exc:
                self._chunk(error_line(exc))
                return
            if lines is None or not self._lines(lines, request):
                return
            if not lines and self.client_has_gone():
                raise Closed

    def _lines(self, lines: list[bytes], request: Request) -> bool:
        """Write them, with the faults that come between. :returns: whether the stream goes on."""
        faults = self.api.stream_faults
        if not faults.pending(request):
            if lines:
                self._chunk(b"".join(lines))
            return True
        for line in lines or [b""]:
            match faults.on_event(request, passing=1 if line else 0):
                case Break(half_line):
                    if half_line:
                        self._chunk((line or b'{"type":"ADDED","object":{}}')[: max(len(line) // 2, 12)])
                    raise Closed
                case Close():
                    return False
                case Silence():
                    self.hang()
                case ErrorEvent(error):
                    self._chunk(error_line(error))
                    return False
                case RawLine(raw):
                    self._chunk(raw)
            if line:
                self._chunk(line)
        return True

    def _chunk(self, data: bytes) -> None:
        if self._members:
            data = _gzip(data)
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(
        self,
        code: int,
        payload: bytes,
        *,
        headers: dict[str, str] | None = None,
        content_type: str = "application/json",
        cut: float | None = None,
    ) -> None:
        sent = {"Content-Type": content_type, **(headers or {})}
        if len(payload) >= self.api.gzip_from and "gzip" in self.headers.get("Accept-Encoding", ""):
            payload = _gzip(payload)
            sent["Content-Encoding"] = "gzip"
        self.send(code, sent, payload, cut=cut)


def _gzip(data: bytes) -> bytes:
    compress = zlib.compressobj(1, wbits=31)
    return compress.compress(data) + compress.flush()


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as exc:
        raise errors.bad_request(f"the body of the request could not be decoded: {exc}") from exc


def _success(item: Any = None) -> bytes:
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if item is not None:
        status["details"] = {"name": item.name, "kind": item.resource.plural, "uid": item.uid}
        if item.resource.group:
            status["details"]["group"] = item.resource.group
    return msgspec.json.encode(status)
