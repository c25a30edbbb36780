# SPDX-License-Identifier: Apache-2.0
"""The entry points of the client and of the services: they set up signals before they import any library.

SIGTERM ends a service that has not started at once. The default action of SIGHUP ends a process. A service ignores it
from the start until it handles it. When it does, it reads its files again, so no SIGHUP is lost.

A shell without job control starts background jobs with SIGINT ignored, and Python leaves it so. SIGINT would have no
effect on such a job and on its children.

Most commands of the client only send requests to an API, so the client does not wait for the engine's libraries.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import sys
import time
from types import FrameType

from watcher_sync.exceptions import Interrupted


def client() -> None:
    """``watcher-sync``: the client; each command is an entry point in ``watcher_sync.cli``."""
    accept_interrupt()
    argv = sys.argv[1:]
    if not argv:
        print("error: no command given; see watcher-sync --help", file=sys.stderr)
        sys.exit(2)
    from watcher_sync.client import shell

    sys.exit(shell.run(argv))


def engine() -> None:
    """``watcher-sync-engine``: reads the sources and maintains the model."""
    _serve("watcher-sync-engine", "engine_service")


def outlet() -> None:
    """``watcher-sync-outlet``: hands the changes of the journal on to subscribers."""
    _serve("watcher-sync-outlet", "outlet_services")


def api() -> None:
    """``watcher-sync-api``: the REST API on the standard library's server, for development."""
    _serve("watcher-sync-api", "api_server")


def _serve(name: str, module: str) -> None:
    """Run the function ``main`` of a module, which is imported when the configuration is right."""
    _set_up_service()
    from watcher_sync.assembly import process

    started_at = time.time()

    def main(argv: list[str]) -> int:
        conf = process.make_conf(argv, prog=name)
        process.use_threads()
        status: int = pkgutil.resolve_name(f"watcher_sync.cmd.{module}:main")(conf, started_at)
        return status

    process.prepare()
    sys.exit(process.run(main))


def accept_interrupt() -> None:
    """Have SIGINT interrupt the process, also where it inherits that the signal is ignored. For the main thread.

    No handler of a plugin raises :class:`Interrupted`, so a ``KeyboardInterrupt`` of a plugin is never taken for it.
    """
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _set_up_service() -> None:
    """End at SIGTERM and ignore SIGHUP until another function of this process sets handlers, and accept SIGINT.

    For the main thread.
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    accept_interrupt()
