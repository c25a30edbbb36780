# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync-manage`` that show the model and its journal, and repair one entity."""

from __future__ import annotations

import functools

from oslo_config import cfg

from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.output import print_json, print_lines
from watcher_sync.commit import entity_repair
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import load_handlers
from watcher_sync.exceptions import ConfigError
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.model.loading import load_kinds
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.writing import journal

_PAGE = 1000


def model_dump(conf: cfg.ConfigOpts) -> None:
    """Print the entities of a kind."""
    _kind_of(load_kinds(), conf.command.kind)  # before the database is asked
    store = open_store(conf)
    print_lines(store.load().snapshot().dump(_kind_of(store.kinds, conf.command.kind).name))


def journal_tail(conf: cfg.ConfigOpts) -> None:
    """Print the latest rows of the journal, or those after a seq."""
    store = open_store(conf)
    since, limit = conf.command.since, conf.command.limit
    if limit is not None and limit < 0:
        raise ConfigError("--limit must not be negative")
    with translated(), store.database.connect() as connection:
        if since is None:
            since = max(journal.read_head(connection, store.tables) - (limit if limit is not None else 20), 0)
        while limit is None or limit > 0:
            rows = journal.read_since(connection, store.tables, since, min(limit or _PAGE, _PAGE))
            if not rows:
                return
            print_lines(row.document() for row in rows)
            since = rows[-1].seq
            limit = None if limit is None else limit - len(rows)


def entity(conf: cfg.ConfigOpts) -> None:
    """Reset or undelete one entity."""
    kind = _kind_of(load_kinds(), conf.command.kind)
    action, entity_id, facet = conf.command.action, conf.command.id, conf.command.facet
    if facet is not None and action == "undelete":
        raise ConfigError("entity undelete: --facet is for entity reset only")
    if facet is not None and facet not in kind.facets:
        raise ConfigError(f"--facet {facet}: {kind.name} has no such facet; the facets are {', '.join(kind.facets)}")
    store = open_store(conf)
    _kind_of(store.kinds, kind.name)
    repair = entity_repair.undelete if action == "undelete" else functools.partial(entity_repair.reset, facet=facet)
    print_json(repair(DirectWriter(store, load_handlers(conf), limits=conf.engine), kind, entity_id))


def _kind_of(kinds: Kinds, name: str) -> Kind:
    """:param name: its name or its plural, as the client takes them."""
    wanted = name.replace("-", "_")
    for kind in kinds.values():
        if wanted in (kind.name, kind.plural):
            return kind
    raise ConfigError(f"--kind {name}: no such kind; the kinds are {', '.join(sorted(kinds))}")
