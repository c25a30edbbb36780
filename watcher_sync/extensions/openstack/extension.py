# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, ComputedFields, Examined, Extension, PluginGroup

if TYPE_CHECKING:
    from oslo_upgradecheck.upgradecheck import Result

    from watcher_sync.api.http.openapi import Route
    from watcher_sync.engine.engine import Engine
    from watcher_sync.engine.services import BackgroundService
    from watcher_sync.reconcile.base import Context


class OpenStackExtension(Extension):
    """See the module."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        from watcher_sync.extensions.openstack.conf import capacity, liveness, reconcile_nova

        return [(module.GROUP, module.OPTS) for module in (liveness, reconcile_nova, capacity)]

    def plugin_groups(self) -> Mapping[str, PluginGroup]:
        from watcher_sync.extensions.openstack.conf.capacity import CAPACITY_PROVIDERS

        return {CAPACITY_PROVIDERS: PluginGroup(prefix="capacity_provider")}

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.extensions.openstack.api import compute_model

        return compute_model.routes(api.service, api.feed)

    def insecure_transports(self, conf: cfg.ConfigOpts) -> Iterable[str]:
        """See :mod:`watcher_sync.extensions.openstack.findings`."""
        from watcher_sync.extensions.openstack import findings

        return findings.insecure_transports(conf)

    def computed_fields(self) -> Mapping[str, ComputedFields]:
        """What the instances use of a host, and what is free."""
        from watcher_sync.extensions.openstack.read.host_usage import COMPUTED, KIND

        return {KIND: COMPUTED}

    def upgrade_checks(self, examined: Examined) -> Iterable[tuple[str, Callable[[], Result]]]:
        from watcher_sync.extensions.openstack import checks

        return [
            ("Drivers of sources", lambda: checks.drivers(examined)),
            ("Nova's notifications", lambda: checks.nova(examined)),
            ("Nova's inventory", lambda: checks.inventory(examined)),
        ]

    def engine_services(
        self, conf: cfg.ConfigOpts, context: Callable[[Engine], Context]
    ) -> Iterable[Callable[[Engine], BackgroundService]]:
        from watcher_sync.extensions.openstack.assembly import make_liveness

        return [lambda engine: make_liveness(conf, engine, context(engine))]
