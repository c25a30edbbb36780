# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-outlet``: hands the changes of the journal on to subscribers.

A SIGHUP must not end the process while it imports its libraries, so they are imported in :func:`main`.
"""

from __future__ import annotations

from watcher_sync.cmd import start_signals


def main() -> None:
    """Entry point."""
    start_signals.ignore_hangup()
    start_signals.accept_interrupt()
    from watcher_sync.cmd import outlet_services

    outlet_services.main()
