# SPDX-License-Identifier: Apache-2.0
"""The outlets of ``watcher-sync-outlet`` that publish on a log, made from the configuration."""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.assembly.store import open_store_of_server
from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import Outlet
from watcher_sync.extensions.log.change_log import ChangeLogs
from watcher_sync.extensions.log.leadership import LEASE_PREFIX, PublisherLease
from watcher_sync.extensions.log.options import OUTLETS
from watcher_sync.extensions.log.publisher import OutletPublisher
from watcher_sync.extensions.log.selection import OutletSelection
from watcher_sync.extensions.log.worker import LogWorker
from watcher_sync.model.loading import load_kinds
from watcher_sync.plugins import load_plugins, make_driver, require_subclass, why_missing
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.database.database import open_database
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store

_RESERVED = ("webhook", "watch")
"""The names of sections of other outlets."""
_MAX_NAME = 64
_BUSY_SECONDS = 0.1
"""The pause of the reader under load, which leaves the machine to the engine."""


def check(conf: cfg.ConfigOpts) -> None:
    """Check ``[outlets]`` and the options of each enabled outlet.

    :raises ConfigError: one cannot work.
    """
    kinds = load_kinds() if conf.outlets.enabled else {}
    for name in make_outlets(conf):
        OutletSelection(name, conf, kinds)


def make_outlets(conf: cfg.ConfigOpts) -> dict[str, Outlet]:
    """Name -> instance, for each of ``[outlets] enabled``. They are not open.

    :raises ConfigError: an outlet has no driver, a driver that cannot be loaded, or wrong options.
    """
    outlets: dict[str, Outlet] = {}
    for name in conf.outlets.enabled:
        if name in outlets:
            raise ConfigError(f"[outlets] enabled names {name!r} twice")
        if name in _RESERVED:
            raise ConfigError(f"[outlets] enabled names {name!r}, which has a section of its own and its own option")
        if len(name) > _MAX_NAME:
            raise ConfigError(f"[outlets] enabled names {name!r}, which has more than {_MAX_NAME} characters")
        outlets[name] = _make_outlet(conf, name)
    return outlets


def assemble(conf: cfg.ConfigOpts) -> LogWorker:
    """The outlets of one process.

    :raises ConfigError: the configuration cannot work.
    :raises SchemaMissing: ``db_sync`` has not been run.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    outlets = make_outlets(conf)
    store = open_store_of_server(conf)
    reader = JournalReader(
        store.database, store.tables, interval=conf.database.journal_poll_interval, busy_seconds=_BUSY_SECONDS
    )
    logs = ChangeLogs(store, reader)
    publishers = [
        OutletPublisher(
            outlet,
            conf[f"outlet_{name}"].driver,
            OutletSelection(name, conf, store.kinds),
            _lease(conf, store, name),
            store,
            reader,
            logs,
        )
        for name, outlet in outlets.items()
    ]
    return LogWorker(store, reader, publishers)


def _lease(conf: cfg.ConfigOpts, store: Store, name: str) -> PublisherLease:
    """The lease of an outlet, over connections of its own: a renewal waits for no other work of this process."""
    seconds = float(conf.database.lease_time)
    database = store.database
    if database.dialect.name != "sqlite":
        database = open_database(conf, answer=seconds / 3, autocommit=True)
    return PublisherLease(EngineLease(database, store.tables, f"{LEASE_PREFIX}{name}", seconds=seconds), name)


def _make_outlet(conf: cfg.ConfigOpts, name: str) -> Outlet:
    """An instance of an outlet's driver; its options are registered."""
    opts.register_instance(conf, OUTLETS, name)
    driver = conf[f"outlet_{name}"].driver
    if not driver:
        raise ConfigError(f"[outlet_{name}] driver is not set; {name!r} is in [outlets] enabled")
    found = load_plugins(OUTLETS, lambda *_: None, [driver])
    if not found:
        raise ConfigError(f"[outlet_{name}] {why_missing(OUTLETS, driver)}")
    cls: type[Outlet] = found[-1].plugin
    require_subclass(f"outlet_{name}", driver, cls, Outlet)
    opts.register_instance(conf, OUTLETS, name, cls.options)
    return make_driver(f"outlet_{name}", driver, lambda: cls(name, conf))
