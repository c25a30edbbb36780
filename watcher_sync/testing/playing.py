# SPDX-License-Identifier: Apache-2.0
"""Plays events to the handlers of a plugin, as an engine does, and returns what the model has then.

The events pass the envelope, the dispatch and the commit cycle into an empty SQLite database of their own. So a test
sees what the quarantine gets and what is parked, too.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from oslo_config import cfg

from watcher_sync.commit.replay import replay
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher, configure, make_handler
from watcher_sync.handlers.base import Handler
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.storage.database.database import open_database
from watcher_sync.storage.schema import schema
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.wire.envelopes import read_body


class Played(NamedTuple):
    """What events led to."""

    entities: dict[str, dict[str, dict[str, Any]]]
    """Kind -> id -> the fields as in the JSON of the API. A kind without entities is absent."""
    outcomes: dict[str, int]
    """Outcome -> number of events: ``read``, ``applied``, ``stale``, ``duplicate``, ``ignored``, ``parked``,
    ``quarantined``."""
    refused: list[str]
    """Why each event is in quarantine, in the order of arrival."""


def play(
    events: Iterable[Mapping[str, Any]],
    *,
    handlers: Mapping[str, type[Handler]],
    kinds: Sequence[type[Entity]] = (),
    batch_size: int = 500,
) -> Played:
    """Apply events in this order to an empty model.

    :param events: each with its envelope, such as a CloudEvent; JSON can express them.
    :param handlers: name of the entry point -> class; options have their defaults.
    :param kinds: those of the plugin, beside the built-in ones.
    :param batch_size: events in one transaction.
    :raises PluginConflict: two handlers claim the same event type, or two classes the same kind.
    """
    known = _kinds(kinds)
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    dispatcher = Dispatcher([(name, make_handler(name, cls, conf)) for name, cls in handlers.items()])
    for handler in dispatcher.handlers:
        configure(handler, conf)
    bodies = [msgspec.json.encode(each) for each in events]
    with tempfile.TemporaryDirectory(prefix="watcher-sync-") as folder:
        file = Path(folder) / "model.sqlite"
        file.write_bytes(_empty_file(tuple(kinds)))
        conf.set_override("connection", f"sqlite:///{file}", group="database")
        store = Store(open_database(conf), known)
        try:
            decoded = [read_body(body, source="test", number=number) for number, body in enumerate(bodies)]
            outcomes = replay(store, dispatcher, decoded, batch_size=batch_size)
            del outcomes["seconds"]
            snapshot = store.load().snapshot()
            entities = {kind: {row["id"]: row for row in snapshot.dump(kind)} for kind in known}
            stored = Quarantine(store)
            refused = [str(stored.show(row_id)["reason"]) for row_id in stored.ids()]
        finally:
            store.close()
            store.database.dispose()
    present = {kind: found for kind, found in entities.items() if found}
    return Played(present, {name: int(count) for name, count in outcomes.items()}, refused)


def _kinds(more: Sequence[type[Entity]]) -> Kinds:
    kinds = builtin_kinds()
    for cls in more:
        kinds.add(cls)
    return kinds


@functools.cache
def _empty_file(kinds: tuple[type[Entity], ...]) -> bytes:
    """An SQLite file with the tables; made once for each set of kinds, because the schema takes longer than a test."""
    with tempfile.TemporaryDirectory(prefix="watcher-sync-") as folder:
        file = Path(folder) / "empty.sqlite"
        database = sa.create_engine(f"sqlite:///{file}")
        schema.upgrade(database, Tables(_kinds(kinds)))
        database.dispose()
        return file.read_bytes()
