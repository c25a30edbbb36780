# SPDX-License-Identifier: Apache-2.0
"""What an operator repairs by hand with the engines stopped: the position of a source, and what a removed source left.

:func:`rewind` has the next start of a source read history again. :func:`forget` deletes the entities of a source that
is not configured any more. Then it deletes all else that is stored of the source.
"""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from oslo_config import cfg

from watcher_sync.assembly.engine import make_lease
from watcher_sync.assembly.sources import make_unstarted, source_scopes
from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.output import print_json
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import load_handlers
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError, LeaseHeld
from watcher_sync.model.changes import Change, Delete, Outcome, Version
from watcher_sync.model.kinds import Kind
from watcher_sync.model.scopes import EntityScope
from watcher_sync.model.view import View
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.groups import removed_sources
from watcher_sync.storage.groups.source_status import REMOVED, SourceRow, list_sources
from watcher_sync.storage.writing.journal import FORGETS_TOMBSTONE
from watcher_sync.storage.writing.source_cursors import write_cursor
from watcher_sync.storage.writing.store import Store

_PORTION_ENTITIES: Final = 200
"""Entities of one transaction, which holds the head of the journal as long."""
_AFTER: Final = "!"
"""Makes a version newer than the stored one, and older than that of each later event."""


class Forgotten(msgspec.Struct, frozen=True):
    """What was deleted, or would be."""

    source: str
    dry_run: bool
    entities: Mapping[str, int]
    """Kind -> number, without the hosts that go with the last entity that refers to them."""
    rows: Mapping[str, int]
    """Table -> number of rows beside the entities."""


def forget_source(conf: cfg.ConfigOpts) -> None:
    """``watcher-sync-manage forget-source``."""
    store, handlers = open_store(conf), load_handlers(conf)
    writer = DirectWriter(store, handlers, limits=conf.engine)
    configured = source_scopes(conf, handlers)
    print_json(forget(conf, configured, store, writer, conf.command.name_of_source, dry_run=conf.command.dry_run))


def rewind_source(conf: cfg.ConfigOpts) -> None:
    """``watcher-sync-manage source rewind``."""
    rewind(conf, open_store(conf), conf.command.name_of_source, conf.command.to)
    print(f"The source {conf.command.name_of_source} reads from {conf.command.to} when its engine starts.")


def forget(
    conf: cfg.ConfigOpts,
    configured: Mapping[str, Sequence[EntityScope]],
    store: Store,
    writer: DirectWriter,
    name: str,
    *,
    dry_run: bool,
) -> Forgotten:
    """Delete the entities of a source with journal rows, then all else that is stored of it.

    The entities are deleted in transactions of 200. If the command is interrupted, it can run again.

    :param configured: name of each source of the configuration -> what it has. Its engine may not have started yet.
    :raises ConfigError: the source is enabled, or unknown, or another one may have its entities.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    rows = list_sources(store.database, removed=True)
    _require_removed(conf, store, name)
    _require_others_known(rows, name)
    removed = _left_behind(rows, configured, name)
    with translated(), store.database.connect() as connection:
        ids = removed_sources.entity_ids(connection, store.tables, store.kinds, removed, name)
        counts = removed_sources.count_rows(connection, store.tables, removed, name)
    if not any(counts.values()):
        known = ", ".join(row.source for row in rows) or "none"
        raise ConfigError(f"{name}: nothing is stored of such a source; the sources are {known}")
    entities = {kind: len(found) for kind, found in ids.items() if found}
    if not dry_run:
        entities = {kind: _delete(store, writer, store.kinds[kind], ids[kind], name) for kind in entities}
        counts = removed_sources.forget_rows(store.database, store.tables, removed, name)
    return Forgotten(name, dry_run, entities, {table: count for table, count in counts.items() if count})


def _require_removed(conf: cfg.ConfigOpts, store: Store, name: str) -> None:
    """:raises ConfigError: the configuration here or that of a running engine has the source."""
    if name in conf.engine.enabled_sources:
        raise ConfigError(f"source {name}: [engine] enabled_sources names it; remove it there and restart its engines")
    now = read_clock(store.database)
    for row in list_sources(store.database):
        age = (now - row.updated_at).total_seconds()
        if row.source == name and row.state != REMOVED and age <= conf.monitoring.stale_after:
            raise ConfigError(
                f"source {name}: the engine on {row.host} (group {row.engine_group}) reported it {age:.0f} s ago; "
                "remove it from [engine] enabled_sources there and restart the engine"
            )


def _require_others_known(rows: Iterable[SourceRow], name: str) -> None:
    """:raises ConfigError: the engine of another source has not said what that source has."""
    by_name = {row.source: row for row in rows}
    own = by_name.pop(name, None)
    if own is None or not removed_sources.scopes_of(own):
        return  # no entities are deleted
    for row in by_name.values():
        if row.state != REMOVED and row.scopes is None:
            raise ConfigError(
                f"source {name}: source {row.source} may have its entities: the engine on {row.host} "
                f"(group {row.engine_group}) has not said what that source has; forget {row.source} first "
                "if it is removed"
            )


def _left_behind(
    rows: Iterable[SourceRow], configured: Mapping[str, Sequence[EntityScope]], name: str
) -> removed_sources.Removed:
    """What the source leaves behind when it is removed, whether or not its engine has said so yet."""
    as_removed = [msgspec.structs.replace(row, state=REMOVED) if row.source == name else row for row in rows]
    found = removed_sources.read_removed(as_removed, itertools.chain.from_iterable(configured.values()))
    return removed_sources.Removed({name: found.scopes.get(name, [])}, found.sites)


def _delete(store: Store, writer: DirectWriter, kind: Kind, ids: Sequence[str], name: str) -> int:
    """Delete entities of one kind; returns how many."""
    return sum(
        _delete_portion(store, writer, kind, ids[start : start + _PORTION_ENTITIES], name)
        for start in range(0, len(ids), _PORTION_ENTITIES)
    )


@retried
def _delete_portion(store: Store, writer: DirectWriter, kind: Kind, ids: Sequence[str], name: str) -> int:
    with writer.begin() as cycle:
        outcomes = cycle.write_all([_deletion(kind, entity_id, name) for entity_id in ids])
        deleted = [(staged.kind.name, staged.id) for staged in cycle.staged if staged.entity is None]
        with cycle.store.connect() as connection:
            removed_sources.forget_tombstones(connection, store.tables, deleted)
    return outcomes.count(Outcome.APPLIED)


def _deletion(kind: Kind, entity_id: str, name: str) -> tuple[Event, Callable[[View], Iterable[Change]]]:
    now = datetime.datetime.now(datetime.UTC)
    event = Event(id=str(uuid.uuid4()), type=FORGETS_TOMBSTONE, source=name, subject=entity_id, time=now)

    def changes(view: View) -> Iterator[Change]:
        entity = view.get(kind.name, entity_id)
        if entity is not None:
            yield Delete(kind.name, entity_id, Version(entity.versions[kind.anchor_position] + _AFTER))

    return event, changes


def rewind(conf: cfg.ConfigOpts, store: Store, name: str, to: str) -> None:
    """Set the position of one source. The lease is held meanwhile, so no engine of the group reads or writes it.

    :param to: a place in the transport's history, in the words of the driver.
    :raises ConfigError: there is no such source or place, or the source has no position that can be set.
    :raises LeaseHeld: an engine leads.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    source = make_unstarted(conf, name, store.cursors().get(name))
    try:
        position = source.cursor_at(to)
    except NotImplementedError:
        driver = conf[f"source_{name}"].driver
        raise ConfigError(f"source {name}: the driver {driver} has no stored position that can be rewound") from None
    lease = make_lease(conf, store)
    holder = lease.take_unless_led()
    if holder is not None:
        raise LeaseHeld(
            f"engine group {lease.name!r} is led by {holder.holder.split('/')[0]}; stop its engines, then rewind"
        )
    try:
        write_cursor(store.database, store.tables, name, position)
    finally:
        lease.give_back()
