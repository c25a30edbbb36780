# SPDX-License-Identifier: Apache-2.0
"""The installed reconcilers: entry points in ``watcher_sync.reconcilers``.

A reconciler that fails to load costs only itself: it is logged, and the others work.
"""

from __future__ import annotations

import inspect
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError, PluginConflict, described, interrupts
from watcher_sync.plugins import load_plugins, register_options
from watcher_sync.reconcile.base import Context, Reconciler

LOG = logging.getLogger(__name__)


def load_reconcilers(conf: cfg.ConfigOpts, context: Context) -> list[Reconciler]:
    """One instance of each installed reconciler, by name.

    :raises ConfigError: when a reconciler says that its configuration cannot work.
    :raises PluginConflict: when two packages install a reconciler of the same name.
    """

    def failed(name: str, exc: BaseException) -> None:
        LOG.error("The reconciler %s cannot be loaded: %s", name, described(exc))

    loaded: dict[str, Reconciler] = {}
    for extension in sorted(load_plugins(opts.RECONCILERS, failed), key=lambda e: e.name):
        if extension.name in loaded:
            raise PluginConflict(f"two packages install a reconciler named {extension.name!r}")
        try:
            loaded[extension.name] = make_reconciler(extension.name, extension.plugin, conf, context)
        except ConfigError:
            raise
        except BaseException as exc:
            if interrupts(exc):
                raise
            failed(extension.name, exc)
    return list(loaded.values())


def make_reconciler(name: str, plugin: Any, conf: cfg.ConfigOpts, context: Context) -> Reconciler:
    """One reconciler with its options registered in ``[reconciler_<name>]``.

    :raises ConfigError: when the value of an option is wrong.
    :raises TypeError: when the plugin is not a reconciler class of this name.
    """
    if not (inspect.isclass(plugin) and issubclass(plugin, Reconciler)):
        raise TypeError(f"{plugin!r} is not a reconciler class")
    if getattr(plugin, "name", None) != name:
        raise TypeError(f"{plugin.__name__} calls itself {getattr(plugin, 'name', None)!r}")
    if plugin.options:
        register_options(conf, plugin.options, f"reconciler_{name}")
    return plugin(conf, context)
