# SPDX-License-Identifier: Apache-2.0
"""The commands of ``watcher-sync-manage`` that work on the whole database."""

from __future__ import annotations

import importlib.metadata
import sys

from oslo_config import cfg

from watcher_sync.assembly.store import open_store
from watcher_sync.cmd.output import print_json
from watcher_sync.exceptions import ConfigError, StorageError
from watcher_sync.storage.groups.engines import LEADING, STANDBY, EngineView, list_engines
from watcher_sync.storage.schema import schema
from watcher_sync.storage.stored import retention
from watcher_sync.storage.writing.store import Store
from watcher_sync.wire.limits import is_epoch


def db_sync(conf: cfg.ConfigOpts) -> None:
    """Create or upgrade the schema."""
    store = open_store(conf, checked=False, limited=False)
    if conf.command.dry_run:
        for line in schema.plan(store.database, store.tables):
            print(line)
    elif conf.command.contract:
        print(f"Releases before revision {schema.contract(store.database, store.tables)} are refused from now on.")
        _print_older_engines(conf, store)
    else:
        revision = schema.upgrade(store.database, store.tables, conf.command.revision, lambda: _print_lock(conf, store))
        print(f"The schema is at revision {revision}.")
        _print_older_engines(conf, store)


def _print_lock(conf: cfg.ConfigOpts, store: Store) -> None:
    """Print what may hold the lock that ``db_sync`` waits for."""
    try:
        found = ", ".join(f"{each.host}:{each.pid} of release {each.release}" for each in _engines(conf, store))
    except StorageError:  # a schema before that of the engines
        found = ""
    print(f"db_sync waits for a lock of another process. Engines at work: {found or 'none'}.", file=sys.stderr)


def _print_older_engines(conf: cfg.ConfigOpts, store: Store) -> None:
    release = importlib.metadata.version("watcher-sync")
    for each in _engines(conf, store):
        if each.release not in (release, None):
            print(
                f"The engine {each.host}:{each.pid} of release {each.release} is at work: restart it with this release."
            )


def _engines(conf: cfg.ConfigOpts, store: Store) -> list[EngineView]:
    found = list_engines(store.database, gone_after=float(conf.monitoring.stale_after))
    return [each for each in found if each.state in (LEADING, STANDBY)]


def renew_epoch(conf: cfg.ConfigOpts) -> None:
    """Give the database another epoch."""
    after = conf.command.after
    if after and not is_epoch(after):
        raise ConfigError(f"--after: {after!r} is no epoch; a log has it before the colon of Watcher-Sync-Position")
    print(f"The epoch of the database is {open_store(conf).begin_epoch(after)}.")


def db_purge(conf: cfg.ConfigOpts) -> None:
    """Purge rows by age."""
    store = open_store(conf)
    now = store.time.read()
    if now is None:
        raise ConfigError(f"nothing is deleted by age: {store.time.doubt}")
    purged = retention.purge(store.database, store.tables, retention.Retention.from_conf(conf.retention), now)
    print_json(purged)
