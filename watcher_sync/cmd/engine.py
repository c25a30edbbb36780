# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-engine``: reads the sources and maintains the model.

A SIGHUP must not end the process while it imports its libraries, so they are imported in :func:`main`.
"""

from __future__ import annotations

from watcher_sync.cmd import start_signals


def main() -> None:
    """Entry point."""
    start_signals.ignore_hangup()
    start_signals.accept_interrupt()
    from watcher_sync.cmd import engine_service

    engine_service.main()
