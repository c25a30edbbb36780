# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, Examined, Extension, OutletProcess, PluginGroup

if TYPE_CHECKING:
    from oslo_upgradecheck.upgradecheck import Result

    from watcher_sync.api.http.openapi import Route


class LogExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.extensions.log import options

        return [(options.GROUP, options.OPTS)]

    def plugin_groups(self) -> Mapping[str, PluginGroup]:
        from watcher_sync.extensions.log import options

        group = PluginGroup(prefix="outlet", options=options.OUTLET_OPTS, enabled=(options.GROUP, "enabled"))
        return {options.OUTLETS: group}

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.extensions.log.api import outlets, schemas

        return [*outlets.routes(api.service), *schemas.routes(api.service)]

    def outlet_processes(self, conf: cfg.ConfigOpts) -> Iterable[OutletProcess]:
        from watcher_sync.extensions.log import assembly, options

        return [
            OutletProcess(
                name="watcher-sync-outlet-log",
                enabled_by="[outlets] enabled",
                workers=1 if conf.outlets.enabled else 0,
                check=assembly.check,
                assemble=assembly.assemble,
                section=options.GROUP,
            )
        ]

    def upgrade_checks(self, examined: Examined) -> Iterable[tuple[str, Callable[[], Result]]]:
        from watcher_sync.extensions.log import checks

        return [("Outlets", lambda: checks.outlets(examined))]
