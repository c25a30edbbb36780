# SPDX-License-Identifier: Apache-2.0
"""What a step of the story does to the cloud: it changes servers through Nova's API and waits until Nova is done.

Nova is done when the API shows the awaited status without a task, and when the event that ends the operation was
published. One thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.real_nova.admin import Admin, Refused
from tests.real_nova.cloud import Cloud
from tests.real_nova.hosted.network import NETWORK_ID
from tests.real_nova.processes import wait_for
from tests.real_nova.recording import Recorder
from tests.real_nova.seed import TENANT

_STEP_SECONDS = 120.0


class Stage:
    """The servers of the story, by name, and the operations on them."""

    def __init__(self, cloud: Cloud, recorder: Recorder | None) -> None:
        self.cloud = cloud
        self.admin = cloud.admin()
        self.tenant = cloud.admin(TENANT, TENANT)
        self.servers: dict[str, str] = {}
        """Name -> id. A server that was deleted is not in it."""
        self.aggregate = 0
        """Number of the aggregate that is the zone of the story."""
        self.recorder = recorder
        self._since = 0

    def begin_step(self) -> None:
        """Events that were published before do not count for this step."""
        self._since = self.recorder.count if self.recorder else 0

    # Servers

    def boot(
        self,
        name: str,
        *,
        flavor: str = "small",
        host: str | None = None,
        zone: str | None = None,
        metadata: Mapping[str, str] | None = None,
        by: Admin | None = None,
        service: str = "nova",
        status: str = "ACTIVE",
        event: str | None = "instance.create.end",
    ) -> None:
        """Create a server, and wait until it has the status.

        :param host: the host that the scheduler must choose.
        :param by: the client that asks for it.
        """
        self.request(name, flavor=flavor, host=host, zone=zone, metadata=metadata, by=by, service=service)
        self.await_status(name, status)
        if event is not None:
            self.await_event(event, name)

    def request(
        self,
        name: str,
        *,
        flavor: str = "small",
        host: str | None = None,
        zone: str | None = None,
        metadata: Mapping[str, str] | None = None,
        by: Admin | None = None,
        service: str = "nova",
    ) -> None:
        """Ask for a server, and return.

        :raises Refused: Nova does not create it.
        """
        seeded = self.cloud.seeded
        assert seeded is not None
        body: dict[str, Any] = {
            "name": name,
            "flavorRef": seeded.flavors[flavor],
            "imageRef": seeded.images["first"],
            "networks": [{"uuid": NETWORK_ID}],
            "metadata": dict(metadata or {}),
        }
        if host is not None:
            body["host"] = host
        if zone is not None:
            body["availability_zone"] = zone
        answer = (by or self.admin).post(service, "/v2.1/servers", {"server": body})
        self.servers[name] = answer["server"]["id"]

    def act(self, name: str, action: str, body: Any = None, *, service: str = "nova", version: str = "2.96") -> None:
        """Ask for an action, and return."""
        self.admin.post(service, f"/v2.1/servers/{self.servers[name]}/action", {action: body}, version)

    def do(self, name: str, action: str, body: Any = None, *, status: str, event: str, service: str = "nova") -> None:
        """Ask for an action, and wait until Nova is done."""
        self.act(name, action, body, service=service)
        self.await_event(event, name)
        self.await_status(name, status)

    def delete(self, name: str) -> None:
        """Delete a server at once, and wait until it is gone."""
        self.admin.call("DELETE", "nova", f"/v2.1/servers/{self.servers[name]}")
        self.await_gone(name)

    def await_gone(self, name: str) -> None:
        """Wait until a server does not exist any more."""
        server_id = self.servers[name]
        wait_for(lambda: self._is_gone(server_id), _STEP_SECONDS, f"the end of {name}")
        self.await_event("instance.delete.end", name)
        del self.servers[name]

    def server(self, name: str) -> dict[str, Any]:
        """The server as the API shows it."""
        found: dict[str, Any] = self.admin.get("nova", f"/v2.1/servers/{self.servers[name]}")["server"]
        return found

    def host_of(self, name: str) -> str:
        return str(self.server(name)["OS-EXT-SRV-ATTR:host"])

    def await_status(self, name: str, status: str) -> None:
        """Wait until the server has the status and no task.

        :raises CloudBroken: it did not come.
        """
        last: list[str] = []

        def reached() -> bool:
            server = self.server(name)
            last[:] = [str(server["status"]), str(server["OS-EXT-STS:task_state"]), str(server.get("fault"))]
            return server["status"] == status and server["OS-EXT-STS:task_state"] is None

        try:
            wait_for(reached, _STEP_SECONDS, f"{name} in status {status}")
        except Exception as exc:
            exc.add_note(f"It is in {', '.join(last)}")
            raise

    def await_task(self, name: str, task: str) -> None:
        """Wait until the API shows the task of a server."""
        wait_for(lambda: self.server(name)["OS-EXT-STS:task_state"] == task, _STEP_SECONDS, f"{name} {task}")

    def await_event(self, event_type: str, name: str | None = None) -> None:
        """Wait for an event of this step. One that Nova does not publish is not waited for."""
        if event_type == "instance.update" and not self.cloud.site.notify:
            return
        if self.recorder is not None:
            self.recorder.await_event(event_type, self.servers[name] if name else None, self._since)

    def _is_gone(self, server_id: str) -> bool:
        try:
            self.admin.get("nova", f"/v2.1/servers/{server_id}")
        except Refused as exc:
            if exc.status == 404:
                return True
            raise
        return False

    # Hosts and aggregates

    def service(self, host: str) -> dict[str, Any]:
        """The compute service of a host."""
        path = f"/v2.1/os-services?binary=nova-compute&host={host}"
        found: dict[str, Any] = self.admin.get("nova", path)["services"][0]
        return found

    def remove_service(self, host: str) -> None:
        """Delete the compute service of a host that is down."""
        self.admin.call("DELETE", "nova", f"/v2.1/os-services/{self.service(host)['id']}")
        self.await_event("service.delete")

    def update_service(self, host: str, **fields: Any) -> None:
        """Enable, disable or force down, and wait for the event."""
        self.admin.call("PUT", "nova", f"/v2.1/os-services/{self.service(host)['id']}", fields)
        self.await_event("service.update")

    def update_service_once_allowed(self, host: str, **fields: Any) -> None:
        """The same, again and again until Nova allows it."""

        def allowed() -> bool:
            try:
                self.update_service(host, **fields)
            except Refused as exc:
                if exc.status == 400:
                    return False
                raise
            return True

        wait_for(allowed, _STEP_SECONDS, f"{host} with {fields}")

    def await_service(self, host: str, state: str) -> None:
        """Wait until the API shows the state of a compute service."""
        wait_for(lambda: self.service(host)["state"] == state, _STEP_SECONDS, f"{host} {state}")

    def await_new_host(self, host: str) -> None:
        """Wait until a new compute service is up and Placement has what it offers, and map it to its cell."""

        def is_up() -> bool:
            path = f"/v2.1/os-services?binary=nova-compute&host={host}"
            return [one["state"] for one in self.admin.get("nova", path)["services"]] == ["up"]

        def is_offered() -> bool:
            providers = self.admin.get("placement", f"/resource_providers?name={host}")["resource_providers"]
            return any(self.inventories(one["uuid"]) for one in providers)

        wait_for(is_up, _STEP_SECONDS, f"{host} up")
        wait_for(is_offered, _STEP_SECONDS, f"the resources of {host}")
        self.cloud.discover_hosts()
        self.await_event("service.create")

    def inventories(self, provider: str) -> dict[str, Any]:
        """The inventories of a resource provider."""
        found: dict[str, Any] = self.admin.get("placement", f"/resource_providers/{provider}/inventories")
        return dict(found["inventories"])

    def create_aggregate(self, name: str, zone: str | None = None) -> int:
        """The number of a new aggregate."""
        body = {"aggregate": {"name": name, "availability_zone": zone}}
        number: int = self.admin.post("nova", "/v2.1/os-aggregates", body)["aggregate"]["id"]
        return number

    def act_on_aggregate(self, number: int, action: str, **fields: Any) -> None:
        """``add_host``, ``remove_host`` or ``set_metadata``."""
        self.admin.post("nova", f"/v2.1/os-aggregates/{number}/action", {action: fields})
