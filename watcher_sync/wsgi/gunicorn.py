# SPDX-License-Identifier: Apache-2.0
"""Settings of gunicorn for the API: ``gunicorn --config python:watcher_sync.wsgi.gunicorn``.

Options of the command line override them. gunicorn reads a request in a thread, so that a slow client occupies one. A
proxy that buffers requests must be in front, such as nginx with ``etc/nginx/watcher-sync-api.conf``.
"""

from __future__ import annotations

import resource
from typing import Any

from watcher_sync.api.http.request_input import MAX_DISCARDED_BYTES

bind = "127.0.0.1:8790"
workers = 2
worker_class = "gthread"
threads = 80
_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
_files = (2**20 if _limit == resource.RLIM_INFINITY else _limit) - 64
"""What a worker may open beside what it always has open."""
# A request with its connection to the database needs four files at most. If gunicorn cannot accept a connection, its
# worker ends with all its requests. Connections beyond this number wait in the queue of the socket.
worker_connections = max(1, min(1000, max(_files // 4, _files - 3 * threads)))
timeout = 60
graceful_timeout = 10
keepalive = 75  # nginx closes an idle connection after 60 seconds; it must be the first
control_socket_disable = True  # since 25.1, which has it by default; older releases ignore the name
forwarder_headers = ""  # by default SCRIPT_NAME and PATH_INFO, which a client of the loopback interface could set


def pre_request(_worker: Any, request: Any) -> None:
    """End the connection of a request whose body may remain unread. The answer says so."""
    for name, value in request.headers:
        if name == "TRANSFER-ENCODING" or (name == "CONTENT-LENGTH" and int(value) > MAX_DISCARDED_BYTES):
            request.force_close()
