# SPDX-License-Identifier: Apache-2.0
"""The demo's API and its page, served in the demo's own process on the loopback interface.

It is the application that a WSGI server would serve, over a store of its own. If the port that is wanted is
taken, as by a second demo, any free one does: the address is printed anyway.
"""

from __future__ import annotations

import threading
from typing import Final, Self

from oslo_config import cfg

from watcher_sync.assembly.api import assemble
from watcher_sync.cmd.api import listen
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
