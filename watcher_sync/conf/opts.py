# SPDX-License-Identifier: Apache-2.0
"""All options of the package in one place: to register them, and to generate the sample configuration.

The groups of sources and handlers are named by the operator and the plugins; the sample shows one
``[source_<driver>]`` group for each installed driver.
"""

from __future__ import annotations

import itertools
from typing import Any

from oslo_config import cfg
from oslo_db.options import database_opts
from stevedore import ExtensionManager

from watcher_sync.conf import api, engine, monitoring, operations, paths, reconcile, retention

SOURCES = "watcher_sync.sources"
HANDLERS = "watcher_sync.handlers"
RECONCILERS = "watcher_sync.reconcilers"

SQLITE = "sqlite:///$state_path/watcher-sync.sqlite"
"""The database of an installation that configures none."""

HEALTH_BACKENDS = ["watcher_sync_database", "watcher_sync_sources"]
"""What the API's ``/healthcheck`` asks where ``[healthcheck] backends`` does not say."""

DRIVER = cfg.StrOpt(
    "driver",
    help="""
The driver of this source: the name of an entry point in ``watcher_sync.sources``.
""",
)

PLUGINS: dict[str, tuple[str, list[cfg.Opt]]] = {
    SOURCES: ("source", [DRIVER]),
    HANDLERS: ("handler", []),
    RECONCILERS: ("reconciler", []),
}
"""Entry points whose classes have options -> what their groups' names begin with, and what all of them have."""

_MODULES = (paths, engine, monitoring, operations, reconcile, retention, api)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every option of ours that does not depend on the configuration itself."""
    for module in _MODULES:
        module.register_opts(conf)


def register_source(conf: cfg.ConfigOpts, name: str, options: list[cfg.Opt]) -> None:
    """Register the driver's options for one source."""
    conf.register_opts([DRIVER, *options], group=f"source_{name}")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator and the documentation."""
    return [*own_opts(), *itertools.chain.from_iterable(list_plugin_opts(namespace) for namespace in PLUGINS)]


def own_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Those that do not depend on what is installed."""
    return list(itertools.chain.from_iterable(module.list_opts() for module in _MODULES))


def list_plugin_opts(namespace: str) -> list[tuple[str, list[cfg.Opt]]]:
    """Those of the plugins of one of :data:`PLUGINS`; imports every plugin."""
    prefix, common = PLUGINS[namespace]
    return [
        (f"{prefix}_{name}", [*common, *options])
        for name, options in plugin_options(namespace).items()
        if common or options
    ]


def set_defaults() -> None:
    """For oslo-config-generator: the defaults that we give to options of the libraries."""
    # Not at the top: it brings a web framework, which an engine has no use for.
    from oslo_middleware.healthcheck.opts import HEALTHCHECK_OPTS

    cfg.set_defaults(database_opts, connection=SQLITE)
    cfg.set_defaults(HEALTHCHECK_OPTS, backends=HEALTH_BACKENDS)


def plugin_options(namespace: str) -> dict[str, list[cfg.Opt]]:
    """Entry point name -> options of the plugin's class; plugins that do not load are left out."""
    manager: ExtensionManager[Any] = ExtensionManager(namespace, on_load_failure_callback=lambda *_: None)
    return {e.name: list(getattr(e.plugin, "options", [])) for e in sorted(manager, key=lambda e: e.name)}
