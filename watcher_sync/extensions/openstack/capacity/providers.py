# SPDX-License-Identifier: Apache-2.0
"""The enabled capacity providers: entry points in ``watcher_sync.capacity_providers``.

A provider counts only if ``[reconcile_capacity] providers`` names it, so one that fails is an error of the
configuration.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError, PluginConflict, described
from watcher_sync.extensions.openstack.conf import capacity
from watcher_sync.plugins import load_plugins, register_options
from watcher_sync.reconcile.capacity_provider import CapacityProvider

_OPTION: Final = f"[{capacity.GROUP}] providers"


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
