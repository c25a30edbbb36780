# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-outlet`` with the watch stream, as a process over the database of a site."""

from __future__ import annotations

import os
import signal

from tests.functional.api.conftest import config_on, free_port
from tests.functional.client.conftest import Site
from tests.functional.executables import BIN, Process, start
from tests.waiting import deadline


class Outlet:
    """``watcher-sync-outlet`` with the watch stream, over the database of a site."""

    def __init__(self, site: Site) -> None:
        self.port = free_port()
        folder = site.folder / "outlet"
        folder.mkdir(exist_ok=True)
        self._config = config_on(site.store, folder)
        with self._config.open("a") as file:
            file.write(f"[outlet_watch]\nport = {self.port}\nauth_strategy = noauth\n")
        self._log = folder / "outlet.log"
        self._process: Process | None = None

    def start(self) -> None:
        self._process = start([BIN / "watcher-sync-outlet", "--config-file", self._config], self._log)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(deadline(60))

    def kill(self) -> None:
        """SIGKILL to the outlet and its workers."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(deadline(60))
