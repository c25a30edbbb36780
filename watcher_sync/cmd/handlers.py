# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage handlers``: the dispatch table. It needs no database."""

from __future__ import annotations

import sys

from oslo_config import cfg

from watcher_sync.cmd.output import print_json, print_table
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped


def handlers(conf: cfg.ConfigOpts) -> None:
    """Print the pattern, the handler and the plugin of each entry."""
    dispatcher = load_handlers(conf)
    columns = ("pattern", "handler", "plugin")
    entries = [(e.pattern, e.handler, e.plugin) for e in dispatcher.table()]
    if conf.command.format == "json":
        print_json([dict(zip(columns, entry, strict=True)) for entry in entries])
    else:
        print_table(columns, entries)
    for failure in dispatcher.failures:
        print(escaped(f"failed to load: {failure.plugin}: {failure.reason}"), file=sys.stderr)
