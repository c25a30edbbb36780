# SPDX-License-Identifier: Apache-2.0
"""What Ironic's API lists: nodes with all details, ports and portgroups, in pages.

The account is a cloud of ``clouds.yaml``, or the options of one of keystoneauth's plugins. Without either, the
reconciler has nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from keystoneauth1 import exceptions, loading
from openstack import connect
from openstack import exceptions as sdk_exceptions
from openstack.connection import Connection
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.model.kinds import Entity
from watcher_sync.reconcile.base import Context
from watcher_sync.reconcile.listing import ListingReconciler
from watcher_sync_ironic.entities import BaremetalNode, BaremetalPort, BaremetalPortgroup
from watcher_sync_ironic.payloads import NodeData, PortData, PortgroupData

_GROUP: Final = "reconciler_ironic"
_VERSION: Final = "1.65"
"""The microversion with all fields: that of the release Victoria."""
_PLUGINS: Final = ("password", "v3applicationcredential", "none")
_REQUEST_SECONDS: Final = 60
_MAX_SHOWN: Final = 200
"""Characters of an error message that are shown."""
_Data = NodeData | PortData | PortgroupData
_COLLECTIONS: Final[Mapping[str, tuple[type[Entity], type[_Data]]]] = {
    "nodes": (BaremetalNode, NodeData),
    "portgroups": (BaremetalPortgroup, PortgroupData),
    "ports": (BaremetalPort, PortData),
}
_NOT_LISTED: Final = {*Entity.__struct_fields__, "compute_host_id"}
"""What other entities tell, and the bookkeeping."""


def _account_options() -> list[cfg.Opt]:
    found: dict[str, cfg.Opt] = {
        option.dest: option
        for option in [
            cfg.StrOpt("auth_type", choices=_PLUGINS, help="The plugin of keystoneauth; unset: none."),
            cfg.StrOpt("cloud", help="The name of a cloud in clouds.yaml, in place of auth_type."),
            cfg.StrOpt("region_name", help="The region; unset: that of the cloud, or the first one."),
            cfg.ListOpt("valid_interfaces", default=["internal", "public"], help="Interfaces of the endpoint."),
        ]
    }
    for option in loading.get_session_conf_options():
        if option.dest == "timeout":
            option.default = _REQUEST_SECONDS
        found.setdefault(option.dest, option)
    for plugin in _PLUGINS:
        for option in loading.get_auth_plugin_conf_options(plugin):
            found.setdefault(option.dest, option)
    return list(found.values())


class IronicReconciler(ListingReconciler):
    """Compares nodes, ports and portgroups with Ironic's API."""

    name: ClassVar[str] = "ironic"
    lists: ClassVar[Mapping[type[Entity], Sequence[str]]] = {
        cls: [name for name in cls.__struct_fields__ if name not in _NOT_LISTED] for cls, _ in _COLLECTIONS.values()
    }
    options: ClassVar[list[cfg.Opt]] = _account_options()

    def __init__(self, conf: cfg.ConfigOpts, context: Context) -> None:
        super().__init__(conf, context)
        group = conf[_GROUP]
        if group.cloud and group.auth_type:
            raise ConfigError(f"[{_GROUP}] cloud, auth_type: are both set; one of them names the account")
        self._connection = self._connect() if self.scopes() else None

    def scopes(self) -> Sequence[str]:
        """The cloud, if an account is set."""
        return [self.name] if self.conf[_GROUP].cloud or self.conf[_GROUP].auth_type else []

    def list_live(self, scope: str, deadline: float) -> Iterator[Entity]:
        """All nodes, portgroups and ports."""
        for collection, (cls, data) in _COLLECTIONS.items():
            for each in self._pages(collection, data, deadline):
                yield cls(id=each.uuid, **{n: v for facet in each.facets().values() for n, v in facet.items()})

    def _pages(self, collection: str, data: type[_Data], deadline: float) -> Iterable[_Data]:
        decoder = msgspec.json.Decoder(dict[str, Any])
        query = {"detail": "true"}
        while True:
            body = self._get(f"/{collection}", query, deadline)
            try:
                page = decoder.decode(body)
                found = [msgspec.convert(each, data) for each in page[collection]]
            except (KeyError, TypeError, UnicodeError, msgspec.MsgspecError) as exc:
                raise ReconcileError(f"baremetal {collection}: {exc}") from None
            yield from found
            if not page.get("next") or not found:
                return
            query = {**query, "marker": found[-1].uuid}

    def _get(self, path: str, query: Mapping[str, str], deadline: float) -> bytes:
        """:raises ReconcileError: the API cannot be asked."""
        assert self._connection is not None
        left = deadline - time.monotonic()
        if left <= 0:
            raise ReconcileError(f"baremetal: no time is left for {path}")
        seconds = min(left, self.conf[_GROUP].timeout or left)
        try:
            answer = self._connection.baremetal.get(
                path, params=query, microversion=_VERSION, timeout=seconds, raise_exc=False
            )
        except (exceptions.ClientException, sdk_exceptions.SDKException) as exc:
            raise ReconcileError(f"baremetal: {type(exc).__name__}") from exc
        if answer.status_code != 200:
            raise ReconcileError(f"baremetal {path}: {answer.status_code}: {answer.text[:_MAX_SHOWN]}")
        content: bytes = answer.content
        return content

    def _connect(self) -> Connection:
        """:raises ConfigError: the options name no usable account."""
        group = self.conf[_GROUP]
        region = {"region_name": group.region_name} if group.region_name else {}
        try:
            if group.cloud:
                return connect(cloud=group.cloud, load_envvars=False, **region)
            auth: Any = loading.get_plugin_loader(group.auth_type).load_from_options_getter(lambda o: group[o.dest])
            session = loading.load_session_from_conf_options(self.conf, _GROUP, auth=auth)
            return Connection(session=session, baremetal_interface=group.valid_interfaces, **region)
        except exceptions.MissingRequiredOptions as exc:
            missing = ", ".join(option.dest for option in exc.options)
            raise ConfigError(f"[{_GROUP}] {missing}: not set; auth_type needs these options") from None
        except (exceptions.ClientException, sdk_exceptions.SDKException) as exc:
            raise ConfigError(f"[{_GROUP}] {exc}") from None
