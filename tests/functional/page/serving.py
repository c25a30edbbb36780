# SPDX-License-Identifier: Apache-2.0
"""The API in threads of the process of the tests."""

from __future__ import annotations

import contextlib
import socketserver
import threading
import wsgiref.simple_server
from collections.abc import Callable, Iterator, Mapping

from oslo_config import cfg

from watcher_sync.assembly.api import Wsgi, make_application
from watcher_sync.conf import keystone as keystone_options
from watcher_sync.conf import opts
from watcher_sync.storage.writing.store import Store


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def served(
    store: Store,
    *,
    keystone: Mapping[str, str] | None = None,
    wrap: Callable[[Wsgi], Wsgi] = lambda application: application,
    **options: object,
) -> Iterator[str]:
    """The URL of an API.

    :param wrap: what is between the server and the application.
    :param keystone: options of ``[keystone_authtoken]``.
    :param options: of ``[api]``.
    """
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("stale_after", 300, group="monitoring")  # no engine writes the state of the sources again
    for name, value in options.items():
        conf.set_override(name, value, group="api")
    for name, value in (keystone or {}).items():
        keystone_options.register_opts(conf)
        conf.set_override(name, value, group=keystone_options.GROUP)
    with served_with(conf, store, wrap) as url:
        yield url


@contextlib.contextmanager
def served_with(
    conf: cfg.ConfigOpts, store: Store, wrap: Callable[[Wsgi], Wsgi] = lambda application: application
) -> Iterator[str]:
    """The URL of an API with this configuration.

    :param wrap: what is between the server and the application.
    """
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, wrap(make_application(conf, store)), _Server, _Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
