# SPDX-License-Identifier: Apache-2.0
"""Serves the API and its page in the demo's process, on the loopback interface.

The application is the one that a WSGI server serves, with a store of its own. If the requested port is in use, for
example by a second demo, a free port is used. The demo prints the address.
"""

from __future__ import annotations

import threading
from typing import Final, Self

from oslo_config import cfg

from watcher_sync.assembly.api import assemble
from watcher_sync.cmd.api_server import listen
from watcher_sync.exceptions import ConfigError

_HOST: Final = "127.0.0.1"


class ServedApi:
    """The API from the beginning of the block to its end."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:param conf: the port that is wanted is ``[api] port``."""
        application = assemble(conf)
        try:
            self._server = listen(application, _HOST, conf.api.port)
        except ConfigError:
            self._server = listen(application, _HOST, 0)
        self.url = f"http://{_HOST}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._serve, name="api", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)
