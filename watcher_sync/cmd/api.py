# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-api``: the REST API on the standard library's server, for development and small labs.

In production ``watcher_sync.wsgi.api:application`` runs under a WSGI server with threads.
"""

from __future__ import annotations

import signal
import socket
import socketserver
import sys
import threading
import wsgiref.simple_server
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.api.app import Wsgi, make_application
from watcher_sync.api.core.authentication import is_loopback
from watcher_sync.assembly import process
from watcher_sync.assembly.on_demand import SyncOnDemand
from watcher_sync.assembly.store import open_store
from watcher_sync.exceptions import ConfigError

LOG = logging.getLogger(__name__)


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A thread for each connection; none of them keeps the process from ending."""

    daemon_threads = True
    request_queue_size = 128


class _Server6(_Server):
    """The same on an IPv6 address."""

    address_family = socket.AF_INET6


class _Handler(wsgiref.simple_server.WSGIRequestHandler):
    """Requests go to the log, and no name server is asked who the caller is."""

    def address_string(self) -> str:
        """The address as it is."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """One line a request, at debug."""
        LOG.debug(format, *args)


def main() -> None:
    """Entry point."""
    process.prepare()
    sys.exit(process.run(_main))


def _main(argv: list[str]) -> int:
    conf = process.make_conf(argv, prog="watcher-sync-api")
    _check_address(conf)
    store = open_store(conf)
    application = make_application(conf, store, SyncOnDemand(conf, store))
    server = listen(application, conf.api.host, conf.api.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        # shutdown() waits for the loop of the thread that the signal interrupts, so it needs another one.
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    LOG.info("Listening on http://%s:%d", conf.api.host, server.server_port)
    with server:
        server.serve_forever(poll_interval=0.2)
    return 0


def listen(application: Wsgi, host: str, port: int) -> wsgiref.simple_server.WSGIServer:
    """A server that listens already, and answers as soon as it is told to serve.

    :param port: 0: any that is free; ``server_port`` tells.
    :raises ConfigError: when the address cannot be listened on.
    """
    kind = _Server6 if ":" in host else _Server
    try:
        return wsgiref.simple_server.make_server(host, port, application, kind, _Handler)
    except OSError as exc:
        raise ConfigError(f"[api] host, port: cannot listen on {host}:{port}: {exc}") from None


def _check_address(conf: cfg.ConfigOpts) -> None:
    """:raises ConfigError: when strangers could reach an API that authenticates nobody."""
    if conf.api.auth_strategy == "noauth" and not conf.api.noauth_allow_remote and not is_loopback(conf.api.host):
        raise ConfigError(
            f"[api] host = {conf.api.host}: with auth_strategy = noauth only a loopback address can be listened on, "
            "unless noauth_allow_remote is set"
        )
