# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync-manage`` that apply events: recorded ones, and those in quarantine."""

from __future__ import annotations

import sys
from typing import Any

from oslo_config import cfg

from watcher_sync.assembly.sources import ConfiguredGrants
from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.output import print_indented, print_lines, print_result, print_table
from watcher_sync.commit import replay as replaying
from watcher_sync.dispatch import load_handlers
from watcher_sync.escaping import escaped
from watcher_sync.exceptions import ConfigError, ReplayRefused
from watcher_sync.sources.replay import find_files, read_ahead, read_events
from watcher_sync.storage.stored.quarantine import Quarantine

_PAGE = 1000


def replay(conf: cfg.ConfigOpts) -> None:
    """Apply the events of files."""
    paths, source = find_files(conf.command.paths), conf.command.source
    store = open_store(conf)
    events = read_ahead(lambda: read_events(paths, source))
    settings = conf.engine
    result = replaying.replay(
        store,
        load_handlers(conf),
        events,
        batch_size=settings.batch_size,
        limits=settings,
    )
    print_result(result, as_table=conf.command.format == "table")


def quarantine(conf: cfg.ConfigOpts) -> None:
    """List, show, replay or drop events."""
    store = open_store(conf)
    stored = Quarantine(store)
    action, ids = conf.command.action, conf.command.ids
    if action in ("replay", "drop") and bool(ids) == conf.command.all:
        raise ConfigError(f"quarantine {action}: give event ids, or --all")
    if action == "show" and not ids:
        raise ConfigError("quarantine show: give an event id")
    if action == "list":
        _list_quarantine(stored, as_table=conf.command.format == "table")
    elif action == "show":
        for row_id in ids:
            print_indented(stored.show(row_id))
    elif action == "replay":
        chosen = stored.ids() if conf.command.all else ids
        settings = conf.engine
        result = replaying.replay_quarantined(
            store,
            load_handlers(conf),
            stored.events(chosen),
            grants=ConfiguredGrants(conf),
            batch_size=settings.batch_size,
            limits=settings,
        )
        print_result(result, as_table=conf.command.format == "table")
        refused = stored.reasons_of(chosen)
        for row_id, reason in refused.items():
            print(escaped(f"{row_id}: {reason}"), file=sys.stderr)
        if refused:
            raise ReplayRefused(f"{len(refused)} events are refused again and stay in quarantine")
    else:
        chosen = stored.ids() if conf.command.all else ids
        for start in range(0, len(chosen), _PAGE):
            stored.drop(chosen[start : start + _PAGE])
        print(f"Dropped {len(chosen)} events.")


def _list_quarantine(quarantine: Quarantine, *, as_table: bool) -> None:
    rows: list[dict[str, Any]] = []
    after = 0
    while page := quarantine.page(after=after, limit=_PAGE):
        after = page[-1]["id"]
        if as_table:
            rows += page
        else:
            print_lines(page)
    if as_table:
        columns = ("id", "received_at", "source", "event_type", "deliveries", "reason")
        print_table(columns, ([str(row[c]) for c in columns] for row in rows))
