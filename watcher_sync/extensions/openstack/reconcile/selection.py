# SPDX-License-Identifier: Apache-2.0
"""What the options leave out of the comparison: projects, zones, aggregates and bare metal. Pure functions.

What is left out is neither written nor deleted. A host is left out by its zone, by an aggregate or as bare metal. A
server is left out by its project, or by its host in the model or in Nova.

Only the list of hypervisors says which hosts are bare metal. The model has the type of the hosts that an earlier list
had. While there is no list, hosts of unknown type are left out, too, if bare metal is to be left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from oslo_config import cfg

from watcher_sync.extensions.openstack.conf import reconcile_nova
from watcher_sync.extensions.openstack.kinds import ComputeNode, Instance
from watcher_sync.extensions.openstack.reconcile.payloads import (
    AggregatePayload,
    Hypervisor,
    ServerPayload,
    ServicePayload,
)

_IRONIC = "ironic"


class Selection:
    """What one run leaves out."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        services: Mapping[str, ServicePayload] | None,
        hypervisors: Mapping[str, Collection[Hypervisor]] | None,
        aggregates: Mapping[str, AggregatePayload] | None,
        nodes: Iterable[ComputeNode],
    ) -> None:
        """:param nodes: the hosts of the model, for what could not be listed (None).

        The other parameters are the listed objects.
        """
        options = conf[reconcile_nova.GROUP]
        self._projects = frozenset(options.ignore_projects)
        self._zones = frozenset(options.ignore_zones)
        self._aggregates = frozenset(options.ignore_aggregates)
        self._hosts: set[str] = set()
        known = list(nodes)
        self._typed = {node.id for node in known if node.hypervisor_type is not None} | set(hypervisors or ())
        if self._zones:
            self._hosts |= _hosts_in(self._zones, services, known)
        for one in (aggregates or {}).values():
            if one.name in self._aggregates:
                self._hosts.update(one.hosts)
        self._ignores_ironic = bool(options.ignore_ironic)
        self._only_typed = False
        """Whether hosts of unknown type are left out."""
        if self._ignores_ironic:
            self._hosts |= _ironic_hosts(hypervisors, known)

    def has_type_of(self, host: object) -> bool:
        """Whether the type of a server's host is known, by the model or a list; so it is without a host."""
        return not host or host in self._typed

    def ignore_ironic(self, hypervisors: Mapping[str, Collection[Hypervisor]]) -> None:
        """Leave out the bare metal of this list, too."""
        self._hosts |= _ironic_hosts(hypervisors, ())

    def ignore_unknown_types(self) -> None:
        """Leave out the hosts of unknown type, because the hypervisors cannot be listed, or not all of them."""
        self._only_typed = self._ignores_ironic

    def unknown_types(self, hosts: Iterable[str]) -> list[str]:
        """Return the hosts that are left out because their type is unknown."""
        return [host for host in hosts if self._only_typed and not self.has_type_of(host)]

    def has_host(self, host: object) -> bool:
        """Whether a host is compared."""
        return host not in self._hosts and (not self._only_typed or self.has_type_of(host))

    def has_aggregate(self, name: str | None) -> bool:
        """Whether an aggregate is compared."""
        return name not in self._aggregates

    def has_server(self, server: ServerPayload) -> bool:
        """Whether a listed server is compared."""
        return self._has(server.project_id, server.host, server.availability_zone)

    def has_instance(self, instance: Instance) -> bool:
        """Whether an instance of the model is compared."""
        return self._has(instance.project_id, instance.host, instance.availability_zone)

    def _has(self, project: object, host: object, zone: object) -> bool:
        return project not in self._projects and self.has_host(host) and zone not in self._zones


def _hosts_in(
    zones: Collection[str], services: Mapping[str, ServicePayload] | None, nodes: Iterable[ComputeNode]
) -> set[str]:
    if services is not None:
        return {host for host, service in services.items() if service.zone in zones}
    return {node.id for node in nodes if node.availability_zone in zones}


def _ironic_hosts(hypervisors: Mapping[str, Collection[Hypervisor]] | None, nodes: Iterable[ComputeNode]) -> set[str]:
    if hypervisors is not None:
        return {host for host, found in hypervisors.items() if any(one.hypervisor_type == _IRONIC for one in found)}
    return {node.id for node in nodes if node.hypervisor_type == _IRONIC}
