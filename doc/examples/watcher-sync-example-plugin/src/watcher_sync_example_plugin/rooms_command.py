# SPDX-License-Identifier: Apache-2.0
"""``watcher-sync-manage rooms``: what each room draws."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.assembly.store import open_store
from watcher_sync_example_plugin.rooms_api import read_watts


def print_rooms(conf: cfg.ConfigOpts) -> None:
    """Print one line for each room."""
    store = open_store(conf)
    with store.connect_stable(short=True) as connection:
        for room, watts in read_watts(connection, store.tables.entities["rack"]).items():
            print(f"{room} {watts}")
