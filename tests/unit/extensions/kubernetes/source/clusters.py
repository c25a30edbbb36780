# SPDX-License-Identifier: Apache-2.0
"""An API server that answers ``{}`` and remembers the requests, and kubeconfigs for it."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from email.message import Message
from pathlib import Path
from typing import Any, Self

import trustme

from tests.waiting import deadline
from watcher_sync.extensions.kubernetes.source.connection import ApiConnection
from watcher_sync.extensions.kubernetes.source.credentials import Access
from watcher_sync.extensions.kubernetes.source.exec_credential import ExecSettings


class _Handler(http.server.BaseHTTPRequestHandler):
    """HTTP/1.0: each request has a connection, and so a TLS handshake, of its own."""

    server: _Server

    def do_GET(self) -> None:
        cluster = self.server.cluster
        refused = cluster.token is not None and self.headers["Authorization"] != f"Bearer {cluster.token}"
        cluster.requests.append(self.headers)
        cluster.paths.append(self.path)
        self.send_response(401 if refused else 200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    cluster: Cluster
    context: ssl.SSLContext | None = None

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self.context is not None:  # the thread of the request does the handshake
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A refused handshake is what the tests are about."""


class Cluster:
    """A server on a port of this machine.

    :ivar token: that it accepts; None: it asks for none.
    :ivar requests: the headers of each request.
    """

    def __init__(self, authority: trustme.CA | None = None, *, host: str = "127.0.0.1", token: str | None = None):
        """:param authority: of its certificate; None: it has no TLS."""
        self.token = token
        self.requests: list[Message] = []
        self.paths: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.cluster = self
        self.port = self._server.server_address[1]
        self.url = f"{'http' if authority is None else 'https'}://{host}:{self.port}"
        self._host = host
        if authority is not None:
            self.present(authority)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def present(
        self,
        authority: trustme.CA,
        clients: trustme.CA | None = None,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
    ) -> None:
        """Take a certificate of an authority from now on.

        :param clients: whose certificates the clients need; None: they need none.
        :param version: the latest. Later than 1.2, a client learns after the handshake that it is refused.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = version
        authority.issue_cert(self._host).configure_cert(context)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            clients.configure_trust(context)
        self._server.context = context

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def write(path: Path, server: str, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    """Write a kubeconfig with one context, in JSON."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


def connect(kubeconfig: Path | None, **access: Any) -> ApiConnection:
    """A connection that waits long enough for a busy machine."""
    settings = ExecSettings(timeout=deadline(60.0))
    given = None if kubeconfig is None else str(kubeconfig)
    return ApiConnection(
        Access(kubeconfig=given, exec_settings=settings, **access),
        connect_timeout=deadline(10.0),
        read_timeout=deadline(10.0),
    )
