# SPDX-License-Identifier: Apache-2.0
"""The installed reconcilers and capacity providers: entry points in ``watcher_sync.reconcilers`` and
``watcher_sync.capacity_providers``.

A reconciler that fails to load costs only itself: it is logged, and the others work. A provider counts only if
``[reconcile_capacity] providers`` names it, so one that fails is an error of the configuration.
"""

from __future__ import annotations

import inspect
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import capacity, opts
from watcher_sync.exceptions import ConfigError, PluginConflict, described, interrupts
from watcher_sync.plugins import load_plugins, register_options
from watcher_sync.reconcile.base import Context, Reconciler
from watcher_sync.reconcile.capacity.base import CapacityProvider

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


_OPTION = f"[{capacity.GROUP}] providers"


def load_providers(conf: cfg.ConfigOpts) -> dict[str, CapacityProvider]:
    """Return name -> instance of each enabled provider, by precedence.

    :raises ConfigError: a provider is not installed, is named twice, or cannot work.
    :raises PluginConflict: two packages install an enabled provider.
    """
    enabled = list(conf[capacity.GROUP].providers)
    if not enabled:
        return {}
    failed: dict[str, BaseException] = {}

    installed: dict[str, list[Any]] = {}
    for extension in load_plugins(capacity.CAPACITY_PROVIDERS, failed.__setitem__):
        installed.setdefault(extension.name, []).append(extension.plugin)
    loaded: dict[str, CapacityProvider] = {}
    for name in enabled:
        if name in loaded:
            raise ConfigError(f"{_OPTION}: {name} is named twice")
        if name in failed:
            raise ConfigError(f"{_OPTION}: {name} cannot be loaded: {described(failed[name])}")
        if name not in installed:
            known = ", ".join(sorted({*installed, *failed}))
            raise ConfigError(f"{_OPTION}: there is no provider {name!r}; there are {known}")
        if len(installed[name]) > 1:
            raise PluginConflict(f"two packages install a capacity provider named {name!r}")
        loaded[name] = make_provider(name, installed[name][0], conf)
    return loaded


def make_provider(name: str, plugin: Any, conf: cfg.ConfigOpts) -> CapacityProvider:
    """Return one provider with its options registered in ``[capacity_provider_<name>]``.

    :raises ConfigError: the plugin is not a capacity provider of this name, or says that it cannot work.
    """
    if not (inspect.isclass(plugin) and issubclass(plugin, CapacityProvider)):
        raise ConfigError(f"{_OPTION}: {name}: {plugin!r} is not a capacity provider class")
    if getattr(plugin, "name", None) != name:
        raise ConfigError(f"{_OPTION}: {name}: {plugin.__name__} has the name {getattr(plugin, 'name', None)!r}")
    if plugin.options:
        register_options(conf, plugin.options, f"capacity_provider_{name}")
    return plugin(conf)
