# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync``: what a user runs; each command is an entry point in ``watcher_sync.cli``."""

from __future__ import annotations

import importlib.metadata
import sys

from cliff.app import App
from cliff.commandmanager import CommandManager

from watcher_sync.cmd import process

COMMANDS = "watcher_sync.cli"


def main() -> None:
    """Entry point."""
    process.prepare()
    argv = sys.argv[1:]
    if not argv:
        print("error: no command given; see watcher-sync --help", file=sys.stderr)
        sys.exit(2)
    app = App(
        description="watcher_sync: one live, ordered, persisted model of a cloud",
        version=importlib.metadata.version("watcher-sync"),
        command_manager=CommandManager(COMMANDS),
    )
    sys.exit(app.run(argv))
