# SPDX-License-Identifier: Apache-2.0
"""Operations on volumes, snapshots, types and backends, each of which ends when Cinder shows its result."""

from __future__ import annotations

import uuid
from typing import Any

from tests.real_cinder.cloud import Cloud
from tests.real_nova.processes import wait_for
from tests.real_nova.seed import TENANT

_SECONDS = 60.0


class Stage:
    """The cloud, and what the story made in it. One thread."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.admin = cloud.admin()
        self.tenant = cloud.admin(TENANT, TENANT)
        self.nova = cloud.admin("cinder", "service")
        self.nova.as_service = True
        self.ids: dict[str, str] = {}
        """Name -> id of volumes and snapshots, and of what has no name."""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the administrator."""
        return self.admin.call(method, "cinder", f"/v3{path}", body)

    # Volumes

    def create(self, name: str, *, status: str = "available", by_tenant: bool = False, **fields: Any) -> None:
        """A volume."""
        client = self.tenant if by_tenant else self.admin
        body = {"name": name, "size": 1, "volume_type": "fast", **fields}
        self.ids[name] = client.post("cinder", "/v3/volumes", {"volume": body})["volume"]["id"]
        self.await_volume(name, status=status)

    def volume(self, name: str) -> dict[str, Any]:
        """As the API has it."""
        found = self.call("GET", f"/volumes/{self.ids[name]}")["volume"]
        return dict(found)

    def await_volume(self, name: str, **fields: Any) -> None:
        """Wait until the API shows these values."""

        def shows() -> bool:
            found = self.volume(name)
            return all(found[field] == value for field, value in fields.items())

        wait_for(shows, _SECONDS, f"volume {name} with {fields}")

    def act(self, name: str, action: str, **arguments: Any) -> None:
        """An action of a volume, which goes on after this returns."""
        self.call("POST", f"/volumes/{self.ids[name]}/action", {action: arguments})

    def delete(self, name: str, path: str = "volumes", query: str = "") -> None:
        """Delete a volume or a snapshot, and wait until it is gone."""
        self.call("DELETE", f"/{path}/{self.ids[name]}{query}")
        self.await_gone(name, path)

    def await_gone(self, name: str, path: str = "volumes") -> None:
        """Wait until the API does not show it."""

        def gone() -> bool:
            found = self.call("GET", f"/{path}/detail?all_tenants=1")[path]
            return self.ids[name] not in {one["id"] for one in found}

        wait_for(gone, _SECONDS, f"the end of {name}")

    def migrate(self, name: str, host: str, **more: Any) -> None:
        """Move a volume to a pool, and wait until it is there and its temporary volume is gone."""
        self.act(name, "os-migrate_volume", host=host, **more)
        self.await_volume(name, migration_status="success", **{"os-vol-host-attr:host": host})
        self.await_no_temporary()

    def await_no_temporary(self) -> None:
        """Wait until no migration has a temporary volume."""

        def none() -> bool:
            return all(one["consumes_quota"] for one in self.call("GET", "/volumes/detail?all_tenants=1")["volumes"])

        wait_for(none, _SECONDS, "the end of temporary volumes")

    # Attachments, as Nova makes them

    def attach(self, name: str, instance_id: str | None = None, host: str = "compute-1") -> None:
        """Reserve, connect and complete."""
        instance_id = instance_id or str(uuid.uuid4())
        body = {"volume_uuid": self.ids[name], "instance_uuid": instance_id}
        made = self.nova.post("cinder", "/v3/attachments", {"attachment": body})["attachment"]["id"]
        self.ids[f"attachment of {name}"] = made
        connector = {
            "host": host,
            "initiator": "iqn.story",
            "ip": "192.0.2.1",
            "platform": "x86_64",
            "os_type": "linux",
        }
        self.nova.call("PUT", "cinder", f"/v3/attachments/{made}", {"attachment": {"connector": connector}})
        self.nova.post("cinder", f"/v3/attachments/{made}/action", {"os-complete": None})
        self.await_volume(name, status="in-use")

    def detach(self, name: str) -> None:
        """End the last attachment."""
        self.nova.call("DELETE", "cinder", f"/v3/attachments/{self.ids[f'attachment of {name}']}")

    # Snapshots

    def snapshot(self, name: str, volume: str, *, status: str = "available", **fields: Any) -> None:
        """A snapshot."""
        body = {"volume_id": self.ids[volume], "name": name, **fields}
        self.ids[name] = self.call("POST", "/snapshots", {"snapshot": body})["snapshot"]["id"]
        self.await_snapshot(name, status)

    def await_snapshot(self, name: str, status: str) -> None:
        """Wait until the API shows the status."""
        path = f"/snapshots/{self.ids[name]}"
        wait_for(lambda: self.call("GET", path)["snapshot"]["status"] == status, _SECONDS, f"{name} {status}")

    # Backends

    def service(self, backend: str, action: str, **fields: Any) -> None:
        """Enable or disable a backend."""
        body = {"binary": "cinder-volume", "host": f"volume-1@{backend}", **fields}
        self.call("PUT", f"/os-services/{action}", body)

    def await_pool(self, name: str, field: str, value: object) -> None:
        """Wait until the scheduler knows this value of a pool."""

        def known() -> bool:
            pools = {pool["name"]: pool["capabilities"] for pool in self.admin.pools_of_scheduler()}
            return name in pools and pools[name][field] == value

        wait_for(known, _SECONDS, f"{name} with {field} = {value}")
