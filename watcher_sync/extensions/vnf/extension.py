# SPDX-License-Identifier: Apache-2.0
"""What the core asks of this extension; see :mod:`watcher_sync.extension`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oslo_config import cfg

from watcher_sync.extension import Api, DriftCause, Extension

if TYPE_CHECKING:
    from watcher_sync.api.http.openapi import Route
    from watcher_sync.engine.services import EvaluationService
    from watcher_sync.extensions.vnf.api.sync import SyncNow


class VnfExtension(Extension):
    """See the module."""

    def __init__(self, sync: SyncNow | None = None) -> None:
        """:param sync: syncs single instances for the API; None: what the configuration of the API's process says."""
        self._sync = sync

    def routes(self, api: Api) -> Iterable[Route]:
        from watcher_sync.extensions.vnf.api import instances, vnflcm
        from watcher_sync.extensions.vnf.on_demand import SyncOnDemand

        service = api.service
        sync = SyncOnDemand(service.conf, service.store) if self._sync is None else self._sync
        return [*instances.routes(service, api.writer, sync), *vnflcm.routes(service)]

    def drift_causes(self) -> Iterable[DriftCause]:
        """Instances whose pods match no level."""
        from watcher_sync.extensions.vnf.drifts import LEVEL

        return [LEVEL]

    def evaluators(self, conf: cfg.ConfigOpts) -> Iterable[EvaluationService]:
        from watcher_sync.extensions.vnf.assembly import make_evaluation

        return [make_evaluation(conf)]
