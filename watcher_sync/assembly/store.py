# SPDX-License-Identifier: Apache-2.0
"""The store, with the entity kinds of the installed plugins."""

from __future__ import annotations

import inspect
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import ExtensionManager

from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.storage import schema
from watcher_sync.storage.database import open_database
from watcher_sync.storage.quotas import Quotas
from watcher_sync.storage.store import Store
from watcher_sync.storage.time_limits import CommitWatch

LOG = logging.getLogger(__name__)

ENTITIES = "watcher_sync.entities"


def load_kinds() -> Kinds:
    """The built-in kinds and those of the installed plugins.

    :raises PluginConflict: two plugins declare the same kind.
    """
    kinds = builtin_kinds()
    manager: ExtensionManager[Any] = ExtensionManager(
        ENTITIES,
        on_load_failure_callback=lambda _m, e, exc: LOG.error("entity plugin %s: cannot be loaded: %s", e.name, exc),
    )
    for extension in sorted(manager, key=lambda e: e.name):
        if not (inspect.isclass(extension.plugin) and issubclass(extension.plugin, Entity)):
            LOG.error("entity plugin %s: is not an Entity class", extension.name)
            continue
        kinds.add(extension.plugin)
    return kinds


def open_store(
    conf: cfg.ConfigOpts, kinds: Kinds | None = None, *, checked: bool = True, limited: bool = True
) -> Store:
    """The store of ``[database] connection``.

    :param kinds: the entity kinds; None loads them.
    :param checked: check that the schema is the one of this release.
    :param limited: whether statements and transactions have time limits.
    :raises ConfigError: the database URL is wrong.
    :raises SchemaMissing: ``db_sync`` has not been run (only if checked).
    :raises DatabaseUnavailable: the database is unavailable (only if checked).
    """
    database = commits = open_database(conf, limited=limited)
    watch = CommitWatch(float(conf.database.commit_timeout), float(conf.database.statement_timeout))
    if limited and database.dialect.name != "sqlite":
        commits = open_database(conf, answer=lambda: watch.seconds)
    declared = kinds if kinds is not None else load_kinds()
    store = Store(database, declared, quotas=lambda: Quotas.from_conf(conf.retention), commits=commits, watch=watch)
    if checked:
        schema.check(database, store.tables)
    return store
