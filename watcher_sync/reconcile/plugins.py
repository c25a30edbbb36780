# SPDX-License-Identifier: Apache-2.0
"""The installed reconcilers: entry points in ``watcher_sync.reconcilers``.

One that fails to load costs only itself: it is logged, and the others work.
"""

from __future__ import annotations

import inspect
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import ExtensionManager

from watcher_sync.conf import opts
from watcher_sync.exceptions import ConfigError, PluginConflict
from watcher_sync.reconcile.base import Context, Reconciler

LOG = logging.getLogger(__name__)


def load_reconcilers(conf: cfg.ConfigOpts, context: Context) -> list[Reconciler]:
    """One instance of each installed reconciler, by name.

    :raises ConfigError: when a reconciler says that its configuration cannot work.
    :raises PluginConflict: when two packages install a reconciler of the same name.
    """

    def failed(_manager: object, entry_point: Any, exc: BaseException) -> None:
        LOG.error("The reconciler %s cannot be loaded: %s: %s", entry_point.name, type(exc).__name__, exc)

    manager: ExtensionManager[Any] = ExtensionManager(opts.RECONCILERS, on_load_failure_callback=failed)
    loaded: dict[str, Reconciler] = {}
    for extension in sorted(manager, key=lambda e: e.name):
        if extension.name in loaded:
            raise PluginConflict(f"two packages install a reconciler named {extension.name!r}")
        try:
            loaded[extension.name] = make_reconciler(extension.name, extension.plugin, conf, context)
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - a plugin's own failure, reported
            failed(manager, extension.entry_point, exc)
    return list(loaded.values())


def make_reconciler(name: str, plugin: Any, conf: cfg.ConfigOpts, context: Context) -> Reconciler:
    """One reconciler with its options registered in ``[reconciler_<name>]``.

    :raises TypeError: when the plugin is not a reconciler class of this name.
    """
    if not (inspect.isclass(plugin) and issubclass(plugin, Reconciler)):
        raise TypeError(f"{plugin!r} is not a reconciler class")
    if getattr(plugin, "name", None) != name:
        raise TypeError(f"{plugin.__name__} calls itself {getattr(plugin, 'name', None)!r}")
    if plugin.options:
        conf.register_opts(plugin.options, group=f"reconciler_{name}")
    return plugin(conf, context)
