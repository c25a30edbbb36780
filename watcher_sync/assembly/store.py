# SPDX-License-Identifier: Apache-2.0
"""The store of a process, with the kinds that the database can store."""

from __future__ import annotations

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.exceptions import ConfigError
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.loading import load_kinds
from watcher_sync.storage.database.database import open_database
from watcher_sync.storage.database.time_limits import CommitWatch
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

_reported_problems: set[str] = set()
"""What was logged of kinds, by this process or by the one that forked it: a service opens the store in both."""


def open_store(
    conf: cfg.ConfigOpts,
    kinds: Kinds | None = None,
    *,
    checked: bool = True,
    limited: bool = True,
    answer: float | None = None,
) -> Store:
    """The store of ``[database] connection``.

    :param kinds: the entity kinds; None loads them.
    :param checked: check that this release can work on the schema, and leave out the kinds that have no fitting table.
    :param limited: whether statements and transactions have time limits.
    :param answer: the seconds that a statement waits for an answer, if it belongs to no commit; None:
        ``[database] statement_timeout``.
    :raises ConfigError: the database URL is wrong.
    :raises SchemaMissing: ``db_sync`` has not been run (only if checked).
    :raises DatabaseUnavailable: the database is unavailable (only if checked).
    """
    store = _make_store(conf, kinds if kinds is not None else load_kinds(), limited=limited, answer=answer)
    return usable_store(conf, store, limited=limited, answer=answer) if checked else store


def usable_store(conf: cfg.ConfigOpts, store: Store, *, limited: bool = True, answer: float | None = None) -> Store:
    """The store, without the kinds whose entities the database cannot store.

    Events that change such an entity go to the quarantine, from which they can be replayed later.

    :returns: the same store if the database can store all its kinds.
    :raises SchemaMissing: ``db_sync`` has not been run.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    problems = schema.check(store.database, store.tables)
    if not problems:
        return store
    unusable = set(problems)
    for name, declared in store.kinds.items():
        if lost := {reference.kind for reference in declared.effective_references} & unusable - {name}:
            unusable.add(name)
            problems.setdefault(name, f"entity kind {name!r} refers to {', '.join(sorted(lost))}")
    for problem in sorted({*problems.values()} - _reported_problems):
        LOG.error("%s; until then its events go to the quarantine", problem)
    _reported_problems.update(problems.values())
    store.dispose()
    return _make_store(conf, store.kinds.without(unusable), limited=limited, answer=answer)


def _make_store(conf: cfg.ConfigOpts, kinds: Kinds, *, limited: bool, answer: float | None) -> Store:
    database = commits = open_database(conf, answer=answer, limited=limited)
    has_pool, pool = database.dialect.name != "sqlite", conf.database
    if has_pool and pool.max_pool_size == 1 and pool.max_overflow == 0:
        raise ConfigError("[database] max_pool_size, max_overflow: one connection is not enough; commits retain one")
    watch = CommitWatch(float(conf.database.commit_timeout), float(conf.database.statement_timeout))
    if limited and has_pool:
        commits = open_database(conf, answer=watch)
    return Store(database, kinds, quotas=conf.retention, commits=commits, watch=watch)


def open_store_of_server(conf: cfg.ConfigOpts, *, checked: bool = True) -> Store:
    """The store of a process whose clients wait for it: an API worker or an outlet.

    A statement waits ``[database] read_timeout`` for an answer.

    :param checked: as for :func:`open_store`, which also says what is raised.
    """
    return open_store(conf, checked=checked, answer=conf.database.read_timeout)
