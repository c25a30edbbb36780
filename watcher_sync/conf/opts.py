# SPDX-License-Identifier: Apache-2.0
"""Registers all options, and lists them for oslo-config-generator.

The operator names the groups of the sources. The sample configuration therefore shows one group
``[source_<driver>]`` for each installed driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from oslo_config import cfg
from oslo_db import options as db_options

from watcher_sync.conf import (
    api,
    cloud_account,
    database,
    engine,
    monitoring,
    operations,
    reconcile,
    retention,
    tracing,
)
from watcher_sync.extension import PluginGroup, gather
from watcher_sync.plugins import load_plugins

SOURCES = "watcher_sync.sources"
HANDLERS = "watcher_sync.handlers"
RECONCILERS = "watcher_sync.reconcilers"

SQLITE = "sqlite:///$state_path/watcher-sync.sqlite"
"""The default of ``[database] connection``."""

DATABASE_DEFAULTS: Final[Mapping[str, int]] = {"max_retries": 60, "retry_interval": 1}
"""The defaults of more options of ``[database]``: how a service waits for its database when it starts."""

HEALTH_BACKENDS = ["watcher_sync_database", "watcher_sync_sources"]
"""The default of ``[healthcheck] backends``, which the API's ``/healthcheck`` calls."""

DRIVER = cfg.StrOpt(
    "driver",
    help="""
The driver of this source: the name of an entry point in ``watcher_sync.sources``.
""",
)

EVENT_TYPES = cfg.ListOpt(
    "event_types",
    help="""
Event types and patterns that this source may bring, such as ``instance.*,service.*``. Any other event goes to
quarantine as unauthorised.

The default is all that the driver may bring: the event types whose handler names the driver, and those that the driver
declares. The option makes that narrower and never wider. A pattern for something that the driver may not bring is
an error.
""",
)

_GROUPS: Final[Mapping[str, PluginGroup]] = {
    SOURCES: PluginGroup(prefix="source", options=[DRIVER, EVENT_TYPES], enabled=("engine", "enabled_sources")),
    HANDLERS: PluginGroup(prefix="handler"),
    RECONCILERS: PluginGroup(prefix="reconciler"),
}

STATE_PATH = cfg.StrOpt(
    "state_path",
    default="/var/lib/watcher-sync",
    help="""
Directory for the files of watcher_sync itself, such as the SQLite database of a small installation.

Other options refer to the directory as ``$state_path``.
""",
)

_MODULES = (database, engine, monitoring, tracing, operations, reconcile, retention, api)
"""Each has the options ``OPTS`` of one group ``GROUP``."""


def plugin_groups() -> dict[str, PluginGroup]:
    """Entry point group of plugins with options -> the sections of its plugins."""
    return {**_GROUPS, **dict(gather(lambda extension: extension.plugin_groups().items()))}


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register all options that do not depend on installed plugins or enabled sources."""
    for group, options in own_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)


def register_database(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[database]``: those of oslo.db, and ours. The default is SQLite."""
    db_options.set_defaults(conf, connection=SQLITE)
    conf.register_opts(database.OPTS, group=database.GROUP)
    for name, value in DATABASE_DEFAULTS.items():
        conf.set_default(name, value, group=database.GROUP)


def register_instance(conf: cfg.ConfigOpts, namespace: str, name: str, options: Iterable[cfg.Opt] = ()) -> str:
    """Register the options of an instance, such as a source, that the operator named.

    :param namespace: the entry point group of its driver.
    :param options: of the driver.
    :returns: the section.
    """
    group = plugin_groups()[namespace]
    section = f"{group.prefix}_{name}"
    conf.register_opts([*group.options, *options], group=section)
    return section


def register_source(conf: cfg.ConfigOpts, name: str, options: Iterable[cfg.Opt] = ()) -> None:
    """Register the driver's options for one source."""
    register_instance(conf, SOURCES, name, options)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator and the documentation."""
    accounts = itertools.chain.from_iterable(map(cloud_account.sample_opts, sections_with_account()))
    plugins = itertools.chain.from_iterable(map(list_plugin_opts, plugin_groups()))
    return [*own_opts(), *accounts, *plugins]


def own_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """The options that do not depend on plugins of :func:`plugin_groups`."""
    extensions = gather(lambda extension: ((group, list(options)) for group, options in extension.options()))
    return [("DEFAULT", [STATE_PATH]), *((module.GROUP, module.OPTS) for module in _MODULES), *extensions]


def sections_with_account() -> list[str]:
    """The sections of :func:`own_opts` with an account of Keystone."""
    return [
        section for section, options in own_opts() if cloud_account.has_account({option.dest for option in options})
    ]


def list_plugin_opts(namespace: str, names: Collection[str] | None = None) -> list[tuple[str, list[cfg.Opt]]]:
    """The options of plugins of one entry point group of :func:`plugin_groups`, which are imported.

    :param names: of the plugins; None: all.
    """
    group = plugin_groups()[namespace]
    return [
        (f"{group.prefix}_{name}", [*group.options, *options])
        for name, options in plugin_options(namespace, names).items()
        if group.options or options
    ]


def set_defaults() -> None:
    """For oslo-config-generator: this package's defaults for options of libraries."""
    # Not at the top: the import loads a web framework, which an engine does not use.
    from oslo_middleware.healthcheck.opts import HEALTHCHECK_OPTS

    cfg.set_defaults(db_options.database_opts, connection=SQLITE, **DATABASE_DEFAULTS)
    cfg.set_defaults(HEALTHCHECK_OPTS, backends=HEALTH_BACKENDS)


def plugin_options(namespace: str, names: Collection[str] | None = None) -> dict[str, list[cfg.Opt]]:
    """Entry point name -> options of the plugin's class, without the plugins that do not load.

    :param names: of the plugins; None: all.
    """
    found = load_plugins(namespace, lambda *_: None, names)
    return {e.name: list(getattr(e.plugin, "options", [])) for e in sorted(found, key=lambda e: e.name)}
