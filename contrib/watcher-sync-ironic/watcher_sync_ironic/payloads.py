# SPDX-License-Identifier: Apache-2.0
"""What Ironic tells of its objects. The notifications and the API use the same names.

The structs are partial. A field that is missing is an error, which names it: the oldest Ironic with all fields is that
of the release Victoria.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from watcher_sync.model.kinds import Id

Facets = Mapping[str, Mapping[str, Any]]


class Resource(msgspec.Struct, kw_only=True, gc=False):
    """What each object has."""

    uuid: Id
    created_at: datetime.datetime
    updated_at: datetime.datetime | None = None


class NodeData(Resource, kw_only=True, gc=False):
    """A node."""

    name: str | None
    driver: str | None
    resource_class: str | None
    conductor_group: str | None
    owner: str | None
    lessee: str | None
    extra: dict[str, Any] | None
    properties: dict[str, Any] | None
    instance_uuid: str | None
    provision_state: str | None
    target_provision_state: str | None
    provision_updated_at: datetime.datetime | None
    last_error: str | None
    power_state: str | None
    target_power_state: str | None
    maintenance: bool | None
    maintenance_reason: str | None
    fault: str | None
    traits: list[str] | None

    def facets(self) -> Facets:
        """Facet -> field -> value."""
        return {
            "config": {
                "name": self.name,
                "driver": self.driver,
                "resource_class": self.resource_class,
                "conductor_group": self.conductor_group,
                "owner": self.owner,
                "lessee": self.lessee,
                "extra": self.extra,
                "properties": self.properties,
                "created_at": self.created_at,
            },
            "instance": {"instance_id": self.instance_uuid},
            "provision": {
                "state": self.provision_state,
                "target_state": self.target_provision_state,
                "provisioned_at": self.provision_updated_at,
                "last_error": self.last_error,
            },
            "power": {"power_state": self.power_state, "target_power_state": self.target_power_state},
            "maintenance": {
                "maintenance": self.maintenance,
                "maintenance_reason": self.maintenance_reason,
                "fault": self.fault,
            },
            "traits": {"traits": sorted(self.traits or ())},
        }


class PortgroupData(Resource, kw_only=True, gc=False):
    """A portgroup."""

    node_uuid: Id
    name: str | None
    address: str | None
    mode: str | None

    def facets(self) -> Facets:
        """Facet -> field -> value."""
        return {
            "state": {
                "node_id": self.node_uuid,
                "name": self.name,
                "address": self.address,
                "mode": self.mode,
                "created_at": self.created_at,
            }
        }


class PortData(Resource, kw_only=True, gc=False):
    """A port."""

    node_uuid: Id
    portgroup_uuid: str | None
    address: str | None
    physical_network: str | None
    pxe_enabled: bool | None

    def facets(self) -> Facets:
        """Facet -> field -> value."""
        return {
            "state": {
                "node_id": self.node_uuid,
                "portgroup_id": self.portgroup_uuid,
                "address": self.address,
                "physical_network": self.physical_network,
                "pxe_enabled": self.pxe_enabled,
                "created_at": self.created_at,
            }
        }


T = TypeVar("T", bound=Resource)


class Payload(msgspec.Struct, Generic[T], gc=False):
    """What wraps an object in a notification."""

    data: T = msgspec.field(name="ironic_object.data")
