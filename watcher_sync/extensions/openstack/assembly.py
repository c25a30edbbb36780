# SPDX-License-Identifier: Apache-2.0
"""The engine's check for silent hosts, made from the configuration."""

from __future__ import annotations

from collections.abc import Collection

from oslo_config import cfg

from watcher_sync.engine.engine import Engine
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.liveness.service import LivenessService, ServiceStates
from watcher_sync.extensions.openstack.liveness.writer import LivenessWriter
from watcher_sync.reconcile.base import Context
from watcher_sync.sources.base import SourceState


def make_liveness(conf: cfg.ConfigOpts, engine: Engine, context: Context) -> LivenessService:
    """The check for silent hosts among those that the engine's own sources bring."""

    def disconnected() -> Collection[str]:
        statuses = engine.source_status()
        return [name for name, status in statuses.items() if status.state is not SourceState.CONNECTED]

    ask = ServiceStates(OpenStackCloud(conf)) if conf.reconcile_nova.enabled else None
    return LivenessService(
        conf, context.shared(LivenessWriter), engine.model.snapshot, disconnected=disconnected, ask=ask
    )
