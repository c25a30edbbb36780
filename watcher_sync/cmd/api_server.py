# SPDX-License-Identifier: Apache-2.0
"""The work of ``watcher-sync-api``: the REST API on the standard library's server, for development.

In production ``watcher_sync.wsgi.api:application`` runs under a WSGI server with threads. SIGHUP: the process reads
the mutable options again.
"""

from __future__ import annotations

import signal
import threading
import wsgiref.simple_server
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.api.http.request_input import SOCKET
from watcher_sync.assembly import process
from watcher_sync.assembly.api import Wsgi, assemble
from watcher_sync.conf.networks import is_loopback
from watcher_sync.engine.monitoring_http import ThreadingServer, ThreadingServer6
from watcher_sync.exceptions import ConfigError

LOG = logging.getLogger(__name__)


class _LoggingHandler(wsgiref.simple_server.WSGIRequestHandler):
    """Logs requests at debug level, without a look-up of the client's host name."""

    def address_string(self) -> str:
        """The client's address."""
        return str(self.client_address[0])

    def get_environ(self) -> dict[str, Any]:
        """The environment of the application."""
        environ = super().get_environ()
        if "Expect" not in self.headers:  # this server answers no such header, so that the body may never come
            environ[SOCKET] = self.connection
        return environ

    def log_message(self, format: str, *args: Any) -> None:
        """Log one line per request at debug level."""
        LOG.debug(format, *args)


def main(conf: cfg.ConfigOpts, started_at: float) -> int:
    """Run until SIGTERM; returns the exit status.

    :param started_at: time of the start, in seconds since the epoch.
    """
    _check_address(conf)
    server = listen(assemble(conf), conf.api.host, conf.api.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        # shutdown() waits for the loop in the thread that the signal interrupts, so another thread calls it.
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    # Not in the main thread: the handler of a signal must not wait for a lock that the main thread holds.
    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=process.reload, args=(conf,), daemon=True).start())
    process.reload_if_written(conf, started_at)
    LOG.info("Listening on http://%s:%d", conf.api.host, server.server_port)
    with server:
        server.serve_forever(poll_interval=0.2)
    return 0


def listen(application: Wsgi, host: str, port: int) -> wsgiref.simple_server.WSGIServer:
    """A server that listens; it answers once ``serve_forever`` runs.

    :param port: the TCP port; 0 chooses a free one, which is in ``server_port`` then.
    :raises ConfigError: the server cannot listen on the address.
    """
    kind = ThreadingServer6 if ":" in host else ThreadingServer
    try:
        server = kind((host, port), _LoggingHandler)
    except OSError as exc:
        raise ConfigError(f"[api] host, port: cannot listen on {host}:{port}: {exc}") from None
    server.set_app(application)
    return server


def _check_address(conf: cfg.ConfigOpts) -> None:
    """Refuse to serve other machines without authentication.

    :raises ConfigError: ``[api] host`` is not a loopback address, and ``noauth_allow_remote`` is not set.
    """
    if conf.api.auth_strategy == "noauth" and not conf.api.noauth_allow_remote and not is_loopback(conf.api.host):
        raise ConfigError(
            f"[api] host = {conf.api.host}: with auth_strategy = noauth it must be a loopback address, "
            "unless noauth_allow_remote is set"
        )
