# SPDX-License-Identifier: Apache-2.0
"""The collector that Watcher loads under the name ``watcher_sync``.

Each audit gets a model of the present generation, which one request brings. So the collector needs no notifications,
and no copy of a shared model: to build a ModelRoot costs less than to copy it.

Watcher's strategies ask for the collector ``compute``, and Watcher has no option for another name. So this collector
takes that name in stevedore's list when it is loaded. Watcher loads the collectors of ``[collector] collector_plugins``
when the decision engine starts, before any audit.
"""

from __future__ import annotations

import importlib.metadata
import threading
from typing import Any

from oslo_config import cfg
from oslo_log import log
from stevedore import ExtensionManager
from watcher.common import exception
from watcher.decision_engine.model import model_root
from watcher.decision_engine.model.collector import base

from watcher_sync_watcher import options, translation
from watcher_sync_watcher.request import ComputeModelRequest, Unavailable
from watcher_sync_watcher.scope import DocumentScope

LOG = log.getLogger(__name__)

NAMESPACE = "watcher_cluster_data_model_collectors"

_REPLACED = "compute"


class WatcherSyncCollector(base.BaseClusterDataModelCollector):
    """Builds the compute model of Watcher from that of watcher_sync. One instance in a process."""

    def __init__(self, config: Any, osc: Any = None) -> None:
        super().__init__(config, osc)
        self._request = ComputeModelRequest(config, lambda: self.osc.session)
        # The scope of the audit that the thread works on. Audits run at the same time, and share this collector.
        self._scope = threading.local()
        replace_compute_collector()

    @classmethod
    def get_config_opts(cls) -> list[cfg.Opt]:
        """The options of every collector, and those of this one."""
        return [*super().get_config_opts(), *options.OPTS]

    @property
    def notification_endpoints(self) -> list[Any]:
        """None: watcher_sync listens to Nova's notifications."""
        return []

    def get_audit_scope_handler(self, audit_scope: Any) -> DocumentScope:
        """What restricts a model to the scope of an audit."""
        self._scope.value = audit_scope
        return DocumentScope(audit_scope, self.config)

    def get_latest_cluster_data_model(self) -> model_root.ModelRoot:
        """A model of the present generation, of the caller's own.

        :raises ClusterDataModelCollectionError: the API of watcher_sync did not answer with a compute model.
        """
        return self.execute()

    def execute(self) -> model_root.ModelRoot:
        """Request the compute model, and build Watcher's model of it.

        :raises ClusterDataModelCollectionError: the API of watcher_sync did not answer with a compute model.
        """
        try:
            document = self._request.fetch()
        except Unavailable as exc:
            LOG.error("compute model unavailable: %s", exc)
            raise exception.ClusterDataModelCollectionError(cdm="compute") from exc
        model = translation.build(document, getattr(self._scope, "value", None) or ())
        LOG.debug("built the model of generation %d", document["generation"])
        return model


def replace_compute_collector() -> None:
    """Have Watcher's loader find this collector under the name ``compute``, in this process."""
    known = ExtensionManager.ENTRY_POINT_CACHE.get(NAMESPACE, [])
    target = f"{WatcherSyncCollector.__module__}:{WatcherSyncCollector.__name__}"
    others = [entry for entry in known if entry.name != _REPLACED]
    if not others:  # not loaded by stevedore
        return
    ours = importlib.metadata.EntryPoint(name=_REPLACED, value=target, group=NAMESPACE)
    ExtensionManager.ENTRY_POINT_CACHE[NAMESPACE] = [*others, ours]
