# SPDX-License-Identifier: Apache-2.0
"""Runs Watcher's strategies, unmodified, with metrics that follow from the names of hosts and servers.

The metrics are the only part that does not come from Watcher: a telemetry service that gives equal figures for equal
resources. So two models that are equal lead to equal plans.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from oslo_config import cfg
from stevedore import ExtensionManager
from watcher.common import utils
from watcher.decision_engine.loading import default
from watcher.decision_engine.model.collector import manager

NAMESPACE = "watcher_cluster_data_model_collectors"
PLUGINS = ("watcher_sync", "watcher_sync_storage", "watcher_sync_baremetal")
STRATEGIES = ("workload_stabilization", "vm_workload_consolidation", "basic")


class Metrics:
    """Figures between 0 and 100 of a resource, the same whenever they are asked for."""

    NAME = "figures"

    def get_instance_cpu_usage(self, resource: Any, *_: Any, **__: Any) -> float:
        """Per cent."""
        return 5.0 + zlib.crc32(resource.uuid.encode()) % 60

    def get_instance_ram_usage(self, resource: Any, *_: Any, **__: Any) -> float:
        """MiB."""
        return resource.memory * 0.5

    def get_instance_ram_allocated(self, resource: Any, *_: Any, **__: Any) -> float:
        """MiB."""
        return resource.memory

    def get_instance_root_disk_size(self, resource: Any, *_: Any, **__: Any) -> float:
        """GiB."""
        return resource.disk

    def get_host_cpu_usage(self, resource: Any, *_: Any, **__: Any) -> float:
        """Per cent."""
        return 3.0 + zlib.crc32(resource.hostname.encode()) % 80

    def get_host_ram_usage(self, resource: Any, *_: Any, **__: Any) -> float:
        """KiB."""
        return resource.memory * 1024 * (0.05 + zlib.crc32(resource.hostname.encode()) % 70 / 100)

    def statistic_aggregation(self, resource: Any, _resource_type: Any, meter_name: str, *_: Any, **__: Any) -> float:
        """The figure of a meter."""
        return getattr(self, f"get_{meter_name}")(resource)

    def list_metrics(self) -> list[str]:
        """The names of the meters."""
        return [name.removeprefix("get_") for name in dir(self) if name.startswith("get_")]


class Session:
    """What a strategy keeps of Watcher's clients; the collector is given its own."""

    session = None


def strategy(name: str, scope: Any = ()) -> Any:
    """A strategy as an audit prepares it: with the defaults of its parameters."""
    made = default.DefaultStrategyLoader().load(name, osc=Session())
    properties = made.get_schema().get("properties", {})
    parameters = utils.Struct()
    parameters.update({key: schema["default"] for key, schema in properties.items() if "default" in schema})
    made.input_parameters = parameters
    made.audit_scope = list(scope)
    made._datasource_backend = Metrics()
    return made


def plan(name: str, models: Mapping[str, Any] = MappingProxyType({}), scope: Any = (), **parameters: Any) -> list[Any]:
    """The actions that a strategy proposes, as (type, parameters).

    :param models: ``compute`` and so on -> a model. For others the strategy asks the collectors.
    """
    made = strategy(name, scope)
    made.input_parameters.update(parameters)
    for which, model in models.items():
        setattr(made, f"_{which}_model", model)
    random.seed(1)
    solution = made.execute(utils.Struct(scope=list(scope), id=1, uuid="audit"))
    return [(action["action_type"], sorted(action["input_parameters"].items(), key=str)) for action in solution.actions]


def collector(name: str) -> Any:
    """The collector that strategies get under a name of Watcher's own, once all collectors are loaded."""
    manager.CollectorManager(osc=Session()).get_collectors()
    return default.ClusterDataModelCollectorLoader().load(name, osc=Session())


def model_of(collector: Any, scope: Any = ()) -> Any:
    """What a strategy does to get its model."""
    handler = collector.get_audit_scope_handler(list(scope))
    return handler.get_scoped_model(collector.get_latest_cluster_data_model())


def described(model: Any) -> dict[str, Any]:
    """Everything that a model has, attribute by attribute: class of elements -> id -> attributes, and the edges."""

    def fields(thing: Any) -> dict[str, Any]:
        values = {}
        for name in thing.fields:
            with contextlib.suppress(NotImplementedError):  # an attribute that was never set
                values[name] = getattr(thing, name)
        return values

    found: dict[str, Any] = {"edges": sorted(model.edges())}
    for name, data in model.nodes(data=True):
        found.setdefault(type(data["attr"]).__name__, {})[name] = fields(data["attr"])
    return found


def configure(**collector: Any) -> None:
    """Watcher's configuration, as a decision engine has it that loads the collectors of this distribution.

    :param collector: options of the collectors.
    """
    cfg.CONF.reset()
    cfg.CONF([], project="watcher", default_config_files=[], default_config_dirs=[])
    cfg.CONF.set_override("collector_plugins", PLUGINS, group="collector")
    cfg.CONF.set_override("api_query_max_retries", 1, group="collector")
    cfg.CONF.set_override("api_query_interval", 0, group="collector")
    from watcher_sync_watcher.collector import WatcherSyncCollector

    group = f"{NAMESPACE}.watcher_sync"
    cfg.CONF.register_opts(WatcherSyncCollector.get_config_opts(), group=group)
    for name, value in collector.items():
        cfg.CONF.set_override(name, value, group=group)


def forget_collectors() -> None:
    """As in a new process: no collector is loaded."""
    from watcher_sync_watcher.collector import WatcherSyncCollector

    ExtensionManager.ENTRY_POINT_CACHE.pop(NAMESPACE, None)
    type(WatcherSyncCollector)._instances.clear()
