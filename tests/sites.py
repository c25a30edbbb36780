# SPDX-License-Identifier: Apache-2.0
"""An installation without an engine: a configuration, and a database with the schema in place."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import msgspec
from oslo_config import cfg

from tests.migrated import migrate
from tests.simulated import nova
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Snapshot
from watcher_sync.model.scopes import EntityScope
from watcher_sync.storage.database import database
from watcher_sync.storage.groups.source_status import SourceRow, write_sources
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


def parsed(arguments: Sequence[str] = ()) -> cfg.ConfigOpts:
    """A configuration from a command line, without the files of this machine."""
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([*arguments], default_config_files=[], default_config_dirs=[])
    return conf


class Site:
    """A database and the configuration that names it."""

    def __init__(
        self, folder: Path, *, url: str | None = None, conf: cfg.ConfigOpts | None = None, kinds: Kinds | None = None
    ) -> None:
        """:param url: of an empty database; without it one in the folder.

        :param conf: the configuration; without it the defaults.
        :param kinds: of the installation; without them ours.
        """
        self.conf = parsed() if conf is None else conf
        self.conf.set_override("connection", url or f"sqlite:///{folder / 'ws.sqlite'}", group="database")
        # No pause of a loaded machine ends a transaction.
        self.conf.set_override("idle_transaction_timeout", 60, group="database")
        self.store = migrate(Store(database.open_database(self.conf), kinds or builtin_kinds()))

    def close(self) -> None:
        self.store.close()
        self.store.database.dispose()

    @property
    def model(self) -> Snapshot:
        return self.store.load().snapshot()

    def write(self, *changes: Upsert | Delete) -> None:
        """Each change as a write of its own, as the API commits it."""
        with DirectWriter(self.store, nova()).begin() as cycle:
            for change in changes:
                cycle.write(Event(id="e", type="test", source="test"), [change])


def follow(store: Store, *sources: str, site: str = "r1", state: str = "connected") -> None:
    """Write that these sources follow a site, as their engines do."""
    now = datetime.datetime.now(datetime.UTC)
    scopes = msgspec.json.encode([EntityScope(kind="", field="id", value=f"{site}:", is_prefix=True)]).decode()
    rows = [
        SourceRow(
            source=source, state=state, engine_group="g", host="h", pid=1, since=now, updated_at=now, scopes=scopes
        )
        for source in sources
    ]  # fmt: skip
    write_sources(store.database, rows)
