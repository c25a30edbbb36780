# SPDX-License-Identifier: Apache-2.0
"""The collectors that Watcher loads under the names ``watcher_sync``, ``watcher_sync_storage`` and so on.

Each audit gets a model of the present generation, which is requested for it. So a collector needs no notifications, and
no copy of a shared model: to build a model costs less than to copy it.

Watcher's strategies ask for the collectors ``compute``, ``storage`` and ``baremetal``, and Watcher has no option for
other names. So a collector takes its name in stevedore's list when it is loaded. Watcher loads the collectors of
``[collector] collector_plugins`` when the decision engine starts, before any audit.
"""

from __future__ import annotations

import abc
import importlib.metadata
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

from oslo_config import cfg
from oslo_log import log
from stevedore import ExtensionManager
from watcher.common import exception
from watcher.decision_engine.model.collector import base
from watcher.decision_engine.scope import baremetal as baremetal_scope
from watcher.decision_engine.scope import base as base_scope

from watcher_sync_watcher import baremetal, compute, options, scope, storage
from watcher_sync_watcher.request import ComputeModelRequest, Connection, Document, ListsRequest, Unavailable

LOG = log.getLogger(__name__)


class Collector(base.BaseClusterDataModelCollector):
    """Builds a model of Watcher from entities of watcher_sync. One instance of a class in a process."""

    replaced: ClassVar[str]
    """The collector of Watcher whose name it takes."""
    scope_handler: ClassVar[type[base_scope.BaseScope]]

    def __init__(self, config: Any, osc: Any = None) -> None:
        super().__init__(config, osc)
        cfg.CONF.register_opts(options.CONNECTION, group=options.GROUP)
        self._request = self.request(Connection(cfg.CONF[options.GROUP], lambda: self.osc.session))
        # The scope of the audit that the thread works on. Audits run at the same time, and share this collector.
        self._scope = threading.local()
        _take_name(self)

    @abc.abstractmethod
    def request(self, connection: Connection) -> ComputeModelRequest | ListsRequest:
        """What requests the document of a model."""

    @abc.abstractmethod
    def build(self, document: Document, audit_scope: Sequence[dict[str, Any]]) -> Any:
        """The model of a document."""

    @property
    def notification_endpoints(self) -> list[Any]:
        """None: watcher_sync listens to the notifications of services."""
        return []

    def get_audit_scope_handler(self, audit_scope: Any) -> base_scope.BaseScope:
        """What restricts a model to the scope of an audit."""
        self._scope.value = audit_scope
        return self.scope_handler(audit_scope, self.config)

    def get_latest_cluster_data_model(self) -> Any:
        """A model of the present generation, of the caller's own.

        :raises ClusterDataModelCollectionError: the API of watcher_sync did not answer with what it is made of.
        """
        return self.execute()

    def execute(self) -> Any:
        """Request the document, and build Watcher's model of it.

        :raises ClusterDataModelCollectionError: the API of watcher_sync did not answer with what it is made of.
        """
        try:
            document = self._request.fetch()
        except Unavailable as exc:
            LOG.error("%s model unavailable: %s", self.replaced, exc)
            raise exception.ClusterDataModelCollectionError(cdm=self.replaced) from exc
        return self.build(document, getattr(self._scope, "value", None) or ())


class WatcherSyncCollector(Collector):
    """Hosts and servers."""

    replaced = "compute"
    scope_handler = scope.ComputeDocumentScope

    @classmethod
    def get_config_opts(cls) -> list[cfg.Opt]:
        """The options of every collector of Watcher, and those of this distribution."""
        return [*super().get_config_opts(), *options.COMPUTE]

    def request(self, connection: Connection) -> ComputeModelRequest:
        """The compute model."""
        return ComputeModelRequest(connection)

    def build(self, document: Document, audit_scope: Sequence[dict[str, Any]]) -> Any:
        """The hosts that the scope chooses, and their servers."""
        return compute.build(document, audit_scope)


class WatcherSyncStorageCollector(Collector):
    """Backends, pools and volumes of Cinder."""

    replaced = "storage"
    scope_handler = scope.StorageDocumentScope

    def request(self, connection: Connection) -> ListsRequest:
        """The lists of Cinder's kinds."""
        return ListsRequest(connection, ("storage_backends", "storage_pools", "volume_types", "volumes"))

    def build(self, document: Document, audit_scope: Sequence[dict[str, Any]]) -> Any:
        """Everything; the scope is applied later, as Watcher does."""
        return storage.build(document)


class WatcherSyncBaremetalCollector(Collector):
    """Nodes of Ironic."""

    replaced = "baremetal"
    scope_handler = baremetal_scope.BaremetalScope

    def request(self, connection: Connection) -> ListsRequest:
        """The list of nodes."""
        return ListsRequest(connection, ("baremetal_nodes",))

    def build(self, document: Document, audit_scope: Sequence[dict[str, Any]]) -> Any:
        """Everything; the scope is applied later, as Watcher does."""
        return baremetal.build(document)


def _take_name(collector: Collector) -> None:
    """Have Watcher's loader find this collector under the name that it replaces, in this process."""
    known = ExtensionManager.ENTRY_POINT_CACHE.get(options.NAMESPACE, [])
    others = [entry for entry in known if entry.name != collector.replaced]
    if not others:  # not loaded by stevedore
        return
    target = f"{type(collector).__module__}:{type(collector).__name__}"
    ours = importlib.metadata.EntryPoint(name=collector.replaced, value=target, group=options.NAMESPACE)
    ExtensionManager.ENTRY_POINT_CACHE[options.NAMESPACE] = [*others, ours]
