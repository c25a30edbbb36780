# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1: paths, bodies, chunks, compression, and the injected faults.

Each connection has one thread and remains open between requests. A watch occupies its thread until it ends. It
notices within a second that its client has disconnected. :mod:`.connections` stores the open sockets, so that
stopping the server ends them.
"""

from __future__ import annotations

import http.server
import socket
import sys
import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from watcher_sync.testing.kubernetes import errors, patches
from watcher_sync.testing.kubernetes.api import KubernetesApi
from watcher_sync.testing.kubernetes.faults import (
    Answer,
    Break,
    Cut,
    Delay,
    ErrorEvent,
    Hang,
    RawLine,
    Request,
    Silence,
)
from watcher_sync.testing.kubernetes.resources import PODS
from watcher_sync.testing.kubernetes.routing import Target, delete_options, list_query, target_of, verb_of, watch_query
from watcher_sync.testing.kubernetes.views import Table, view
from watcher_sync.testing.kubernetes.watching import Watch, error_line


class Closed(Exception):
    """The connection ends here."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection; :attr:`api` is set by the server that makes the class."""

    api: KubernetesApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_version = "fake-kube-apiserver"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.api.connections.add(self.connection)

    def finish(self) -> None:
        self.api.connections.discard(self.connection)
        try:
            super().finish()
        except (OSError, ValueError):
            pass  # the client has gone, or a fault has closed it

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError, Closed):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are counted instead."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that http.server requires

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        target = target_of(self.api.registry, unquote(split.path))
        verb = verb_of(self.command, target, query)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(verb, target.resource.plural if target else "", split.path, query, headers)
        self.api.requests.note(request)
        cut: float | None = None
        try:
            self.api.authenticate(request)
            for action in self.api.faults.on_request(request):
                match action:
                    case Answer(error):
                        raise error
                    case Delay(seconds):
                        self.api.stopping.wait(seconds)
                    case Hang():
                        self._hang()
                    case Cut(at):
                        cut = at
            if target is None:
                self._discovery(request.path)
            elif verb == "watch":
                self._watch(target, request)
            else:
                code, payload = self._operation(target, request, body)
                self._send(code, payload, cut=cut)
        except errors.ApiError as exc:
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
        self.end_headers()
        self.wfile.flush()
        with api.requests.open_watch(request):
            self._stream(watch, request)
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _stream(self, watch: Watch, request: Request) -> None:
        faults = self.api.faults
        if not self._lines(list(watch.begin()), request):
            return
        while not self.api.stopping.is_set():
            try:
                lines = watch.wait(lambda: faults.due(request) or self.api.stopping.is_set())
            except errors.ApiError as exc:
                self._chunk(error_line(exc))
                return
            if lines is None or not self._lines(lines, request):
                return
            if not lines and self._client_has_gone():
                raise Closed

    def _lines(self, lines: list[bytes], request: Request) -> bool:
        """Write them, with the faults that come between. :returns: whether the stream goes on."""
        faults = self.api.faults
        if not faults.pending(request):
            if lines:
                self._chunk(b"".join(lines))
            return True
        for line in lines or [b""]:
            match faults.on_stream(request, passing=1 if line else 0):
                case Break(half_line):
                    if half_line:
                        self._chunk((line or b'{"type":"ADDED","object":{}}')[: max(len(line) // 2, 12)])
                    self._drop()
                case Silence():
                    self._hang()
                case ErrorEvent(error):
                    self._chunk(error_line(error))
                    return False
                case RawLine(raw):
                    self._chunk(raw)
            if line:
                self._chunk(line)
        return True

    def _chunk(self, data: bytes) -> None:
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
        self.send_response(code, HTTPStatus(code).phrase)
        if len(payload) >= self.api.gzip_from and "gzip" in self.headers.get("Accept-Encoding", ""):
            compress = zlib.compressobj(1, wbits=31)
            payload = compress.compress(payload) + compress.flush()
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if cut is not None:
            self.wfile.write(payload[: int(len(payload) * cut)])
            self.wfile.flush()
            self._drop()
        self.wfile.write(payload)
        self.wfile.flush()

    def _hang(self) -> None:
        """Until the server stops or the client has given up."""
        while not self.api.stopping.wait(0.2):
            if self._client_has_gone():
                break
        raise Closed

    def _drop(self) -> None:
        """The connection ends without a farewell of HTTP."""
        self.wfile.flush()
        raise Closed

    def _client_has_gone(self) -> bool:
        try:
            waiting: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return not waiting


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


def bind(api: KubernetesApi, host: str, port: int) -> tuple[http.server.ThreadingHTTPServer, Callable[[], None]]:
    """A listening server for the store, and what serves it until it is shut down."""
    handler = type("BoundHandler", (Handler,), {"api": api})
    server = _Server((host, port), handler)
    return server, lambda: server.serve_forever(poll_interval=0.05)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the client or a fault has cut; anything else is a bug of ours and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
