# SPDX-License-Identifier: Apache-2.0
"""What Ironic's API lists: nodes with all details, ports and portgroups, in pages."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from oslo_log import log as logging

from watcher_sync.extensions.openstack.cloud.listing import (
    CloudRequestRefused,
    OpenStackReconciler,
    id_of,
    pages,
    resource,
)
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.listing import UnreadableEntry, read_entries
from watcher_sync_ironic.entities import BaremetalNode, BaremetalPort, BaremetalPortgroup
from watcher_sync_ironic.payloads import NodeData, PortData, PortgroupData

LOG = logging.getLogger(__name__)

_SERVICE: Final = "baremetal"
_VERSION: Final = "1.65"
"""The microversion with all fields: that of the release Victoria."""
_Data = NodeData | PortData | PortgroupData
_COLLECTIONS: Final[Mapping[str, tuple[type[Entity], type[_Data]]]] = {
    "nodes": (BaremetalNode, NodeData),
    "portgroups": (BaremetalPortgroup, PortgroupData),
    "ports": (BaremetalPort, PortData),
}
_NEEDED: Final = (
    "to see all nodes, the account needs the role reader in the system scope, or service in the service project"
)
_REDACTED: Final = re.compile(r"\*\* (value )?redacted\b.*\*\*", re.IGNORECASE | re.DOTALL)
"""What Ironic writes instead of a value, such as ``** Value Redacted - Requires ... permission. **``."""
_NOT_LISTED: Final = {*Entity.__struct_fields__, "compute_host_id"}
"""What other entities tell, and the bookkeeping."""


class IronicReconciler(OpenStackReconciler):
    """Compares nodes, ports and portgroups with Ironic's API.

    Ironic answers an account of a project with the nodes of this project alone, and with the status 200. It refuses
    such an account its conductors, so they are requested first: a part of the nodes is no listing.
    """

    name: ClassVar[str] = "ironic"
    versions: ClassVar[Mapping[str, str]] = {_SERVICE: "1"}
    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = {
        cls: [name for name in cls.__struct_fields__ if name not in _NOT_LISTED] for cls, _ in _COLLECTIONS.values()
    }

    finds: ClassVar[Collection[type[Entity]]] = tuple(cls for cls, _ in _COLLECTIONS.values())

    def list_live(self, scope: str, deadline: float) -> Iterator[Entity | UnreadableEntry]:
        """All nodes, portgroups and ports."""
        client = self.client(deadline)
        try:
            client.get(_SERVICE, "/conductors", microversion=_VERSION)
        except CloudRequestRefused as exc:
            raise CloudRequestRefused(f"{exc}; {_NEEDED}") from None
        hidden: set[str] = set()
        for key, (cls, data) in _COLLECTIONS.items():
            found = pages(client, _SERVICE, f"/{key}", key=key, params={"detail": "true"}, version=_VERSION)
            yield from read_entries(cls, found, functools.partial(_entity, cls, data, hidden), id_of)
        if hidden:
            LOG.warning("Ironic hides %s from this account; they stay as notifications report them", sorted(hidden))

    def find_live(self, scope: str, cls: type[Entity], entity_id: str, deadline: float) -> Entity | None:
        """Ask for one node, portgroup or port."""
        [(key, data)] = [(key, data) for key, (listed, data) in _COLLECTIONS.items() if listed is cls]
        found = resource(self.client(deadline), _SERVICE, f"/{key}", entity_id, version=_VERSION)
        return None if found is None else _entity(cls, data, set(), found)


def _entity(cls: type[Entity], data: type[_Data], hidden: set[str], found: object) -> Entity:
    """Make an entity of an answer.

    :param hidden: gets the names of fields that the account may not see; the model retains their values.
    :raises msgspec.ValidationError: a field is missing, or has another type.
    """
    each = msgspec.convert(found, data)
    fields = {name: value for facet in each.facets().values() for name, value in facet.items()}
    redacted = [name for name, value in fields.items() if _is_redacted(value)]
    hidden.update(f"{cls.__name__}.{name}" for name in redacted)
    return cls(id=each.uuid, **fields | dict.fromkeys(redacted, msgspec.UNSET))


def _is_redacted(value: Any) -> bool:
    """Whether Ironic put a text or an object with a text in the place of a value that the account may not see."""
    if isinstance(value, dict):
        return any(isinstance(text, str) and _is_redacted(text) for text in value.values())
    return isinstance(value, str) and _REDACTED.fullmatch(value) is not None
