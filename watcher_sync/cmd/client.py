# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync``: the client; each command is an entry point in ``watcher_sync.cli``.

Most commands only send requests to an API. This module therefore imports the client package alone, so that a command
does not wait for the engine's libraries to load.
"""

from __future__ import annotations

import sys

from watcher_sync.client import shell
from watcher_sync.cmd import start_signals


def main() -> None:
    """Entry point."""
    start_signals.accept_interrupt()
    argv = sys.argv[1:]
    if not argv:
        print("error: no command given; see watcher-sync --help", file=sys.stderr)
        sys.exit(2)
    sys.exit(shell.run(argv))
