# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-api``: the REST API on the standard library's server, for development.

A SIGHUP must not end the process while it imports its libraries, so they are imported in :func:`main`.
"""

from __future__ import annotations

from watcher_sync.cmd import start_signals


def main() -> None:
    """Entry point."""
    start_signals.ignore_hangup()
    start_signals.accept_interrupt()
    from watcher_sync.cmd import api_server

    api_server.main()
