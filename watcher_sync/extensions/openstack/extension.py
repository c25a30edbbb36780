# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oslo_config import cfg

from watcher_sync.extension import Extension, PluginGroup


class OpenStackExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.conf import capacity, liveness, reconcile_nova

        return [(module.GROUP, module.OPTS) for module in (liveness, reconcile_nova, capacity)]

    def plugin_groups(self) -> Mapping[str, PluginGroup]:
        from watcher_sync.conf.capacity import CAPACITY_PROVIDERS

        return {CAPACITY_PROVIDERS: PluginGroup(prefix="capacity_provider")}
