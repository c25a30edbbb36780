# SPDX-License-Identifier: Apache-2.0
"""The monitoring HTTP server: ``/healthz``, ``/readyz``, ``/metrics``.

Each answer comes from memory. No request waits for the database, a broker or the engine's thread, so the server also
answers during an outage. Each request has a thread of its own. The server accepts no writes and does not authenticate
(see ``[monitoring] host``).
"""

from __future__ import annotations

import datetime
import errno
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from wsgiref import simple_server

import msgspec
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client import make_wsgi_app

from watcher_sync.engine import metrics
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.health import readiness
from watcher_sync.exceptions import ConfigError
from watcher_sync.periodic import Outage

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOG = logging.getLogger(__name__)

_PATHS = ("/healthz", "/readyz", "/metrics")

_RETRY_SECONDS = 5.0
"""The delay between two attempts to open a port that was free before the fork and is in use now."""
_STOP_SECONDS = 5.0

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""The errors of ``accept`` while the process or the machine has no resources for a connection."""
_EXHAUSTED_PAUSE_SECONDS = 0.2


def make_application(
    engine: Engine,
    *,
    now: Callable[[], datetime.datetime] | None = None,
) -> WSGIApplication:
    """The three paths as a WSGI application.

    :param now: the time with which the reports of the sources are compared; None: that of the database.
    """
    time_now = now or engine.store.time.observed
    scrape = make_wsgi_app(metrics.make_registry(engine, now=time_now))

    def get(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return scrape({**environ, "REQUEST_METHOD": "GET"}, start_response)  # type: ignore[no-any-return]
        if path not in _PATHS:
            return _answer(start_response, "404 Not Found", {"paths": _PATHS})
        if path == "/healthz":
            alive, problem = not engine.ended and not engine.watchdog.is_dead, engine.watchdog.problem
            status = "200 OK" if alive else "503 Service Unavailable"
            return _answer(start_response, status, {"alive": alive, **({"detail": problem} if problem else {})})
        found = readiness(engine, time_now())
        return _answer(start_response, "200 OK" if found.ready else "503 Service Unavailable", found)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", {}, ("Allow", "GET, HEAD"))
        body = get(environ, start_response)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else body

    return application


def check_port(conf: cfg.ConfigOpts) -> None:
    """Check before the fork that the port can be opened.

    :raises ConfigError: the port cannot be opened.
    """
    if conf.monitoring.port:
        check_ports(conf, [conf.monitoring.port], "[monitoring] host, port")


def check_ports(conf: cfg.ConfigOpts, ports: Iterable[int], options: str) -> None:
    """Check before the fork that ports on ``[monitoring] host`` can be opened.

    :param options: which options gave the ports.
    :raises ConfigError: a port cannot be opened.
    """
    for port in ports:
        try:
            _make_server(conf.monitoring.host, port).server_close()
        except OSError as exc:
            where = f"{conf.monitoring.host} port {port}"
            raise ConfigError(f"{options}: cannot listen on {where}: {exc.strerror or exc}") from None


class MonitoringServer:
    """Serves an application on ``[monitoring] host`` in a thread. Start it after the fork."""

    def __init__(self, conf: cfg.ConfigOpts, application: WSGIApplication, port: int | None = None) -> None:
        """:param port: the TCP port; 0: nothing is served; None: that of ``[monitoring]``."""
        self._host: str = conf.monitoring.host
        self._port: int = conf.monitoring.port if port is None else port
        self._application = application
        self._stopping = threading.Event()
        # Guards _server. Once it is set, the thread serves until shutdown() is called.
        self._lock = threading.Lock()
        self._server: simple_server.WSGIServer | None = None
        self._thread = threading.Thread(target=self._run, name="monitoring", daemon=True)

    def start(self) -> None:
        """Begin to serve, if a port is configured; returns at once."""
        if self._port:
            self._thread.start()

    def stop(self) -> None:
        """Close the port and end the thread."""
        with self._lock:
            self._stopping.set()
            server = self._server
        if server is not None:
            server.shutdown()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        where = f"{self._host} port {self._port}"
        outage = Outage(LOG, f"Monitoring cannot listen on {where}", f"Monitoring listens on {where} again")
        while not self._stopping.is_set():
            try:
                server = _make_server(self._host, self._port)
            except OSError as exc:
                outage.failed(exc)
                self._stopping.wait(_RETRY_SECONDS)
                continue
            server.set_app(self._application)
            with server:
                with self._lock:
                    if self._stopping.is_set():
                        return
                    self._server = server
                LOG.info("Monitoring listens on %s port %d", self._host, self._port)
                server.serve_forever(poll_interval=0.2)
            return


class ThreadingServer(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A server that listens once it is made, with a thread for each request."""

    daemon_threads = True
    request_queue_size = 128
    block_on_close = False

    def server_bind(self) -> None:
        """Listen."""
        # The library's method asks the resolver for the name of the address, which may take long.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()
        where = f"{self.server_name} port {self.server_port}"
        self._outage = Outage(LOG, f"Cannot accept connections on {where}", f"Accepting connections on {where} again")

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. While this is not possible, pause: the connection waits, so the loop would spin."""
        try:
            accepted = super().get_request()
        except OSError as exc:
            if exc.errno in _EXHAUSTED:
                self._outage.failed(exc)
                time.sleep(_EXHAUSTED_PAUSE_SECONDS)
            raise
        self._outage.succeeded()
        return accepted

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that disconnected; the application handles its own errors."""
        LOG.debug("A client disconnected during a request")


class ThreadingServer6(ThreadingServer):
    """The same server on an IPv6 address."""

    address_family = socket.AF_INET6


class _Handler(simple_server.WSGIRequestHandler):
    timeout = 10
    """Seconds within which a client has to send its request."""
    server_version = "watcher-sync"

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: probes come every second."""


def _make_server(host: str, port: int) -> simple_server.WSGIServer:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    cls = ThreadingServer6 if family == socket.AF_INET6 else ThreadingServer
    return cls((str(address[0]), port), _Handler)


def _answer(start_response: StartResponse, status: str, document: Any, *headers: tuple[str, str]) -> Iterable[bytes]:
    body = msgspec.json.encode(document) + b"\n"
    length = ("Content-Length", str(len(body)))
    start_response(status, [("Content-Type", "application/json"), length, ("Cache-Control", "no-store"), *headers])
    return [body]
