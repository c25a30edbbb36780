# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync``: what a user runs; each command is an entry point in ``watcher_sync.cli``.

Most commands speak to an API and need nothing of the rest of this package, so nothing of it is imported here:
a listing does not wait for the engine's libraries to load.
"""

from __future__ import annotations

import sys

from watcher_sync.client import shell


def main() -> None:
    """Entry point."""
    argv = sys.argv[1:]
    if not argv:
        print("error: no command given; see watcher-sync --help", file=sys.stderr)
        sys.exit(2)
    sys.exit(shell.run(argv))
