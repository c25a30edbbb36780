# SPDX-License-Identifier: Apache-2.0
"""What a receiver learns of pods in a namespace that belongs to no project, from deliveries over loopback."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from tests.functional.storage.writing import commit, cycle_on
from tests.functional.webhooks.receivers import Receiver, answering, receiving, status
from tests.functional.webhooks.subscribing import subscribe
from tests.functional.webhooks.working import working
from tests.simulated import by_facet, told
from tests.waiting import eventually
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.writing.store import Store

PROJECT = "p"
SECRETS = ("very-secret-label", "10.99.98.97", "1234567891", "worker-1", "1987654321")
PLACE = {"cluster": "edge", "namespace": "kube-system"}
VDUS = {"VDU1": {"workload": {"kind": "Deployment", "name": "dns"}, "initial": 1}}


class KubeSystem:
    """A VNF instance of a project, and its workload and pod in kube-system."""

    def __init__(self, store: Store) -> None:
        self._cycle = cycle_on(store)
        self._numbers = itertools.count(1)
        self._write("vnf_instance", "v", **PLACE, name="spy", project_id=PROJECT, vnfd_id="d", vdus=VDUS)

    def write(self, phase: str, owner: str | None = None) -> None:
        """Change each field of the workload and of the pod."""
        common = {**PLACE, "project_id": owner, "labels": {"app": SECRETS[0]}}
        self._write("workload", "w", **common, kind="Deployment", name="dns", replicas=1, generation=1987654321)
        self._write(
            "pod", "u", **common, name="dns-1", owner_uid="w", phase=phase, ip_address=SECRETS[1], restarts=1234567891,
            node=SECRETS[3],
        )  # fmt: skip

    def _write(self, kind_name: str, entity_id: str, /, **values: Any) -> None:
        number, facets = next(self._numbers), by_facet(kind_name, **values)
        commit(self._cycle, told(number, Upsert(kind_name, entity_id, f"{number:06d}", facets)))


@pytest.mark.parametrize("payload", ["status", "full"])
def test_a_receiver_of_a_project_gets_name_and_phase_of_the_pods_of_kube_system(store: Store, payload: str) -> None:
    system = KubeSystem(store)

    def bodies(receiver: Receiver) -> bytes:
        return b"\n".join(body for _, _, body in receiver.requests)

    async def run() -> tuple[bytes, bytes, bytes]:
        async with receiving(answering(status(200))) as member, receiving(answering(status(200))) as admin:
            about = {"instance_kind": "vnf_instance", "instance_id": "v", "payload": payload, "project_id": PROJECT}
            subscribe(store, 0, member.url, **about, name="member")
            subscribe(store, 0, admin.url, **about, name="admin", sees_admin_only=True, sees_all_projects=True)
            labels = {"labels": {"app": SECRETS[0]}}
            async with receiving(answering(status(200))) as guessing:
                subscribe(store, 0, guessing.url, **about, name="guess", filter=labels)
                async with working(store, 3):
                    for phase in ("Pending", "Running", "Failed"):
                        await asyncio.to_thread(system.write, phase)
                        for receiver in (member, admin):
                            await eventually(lambda r=receiver, p=phase: p.encode() in bodies(r))
                    before, whole = bodies(member), bodies(admin)
                    # The namespace is mapped to the project: now the receiver gets the pod whole.
                    await asyncio.to_thread(system.write, "Failed", PROJECT)
                    await eventually(lambda: SECRETS[1].encode() in bodies(member))
                    await eventually(lambda: b"dns-1" in bodies(guessing))
                    return before, whole, bodies(guessing)

    before, admin, guessing = asyncio.run(run())
    for secret in SECRETS:
        assert secret.encode() not in before
    pods = [
        one for body in before.splitlines() for one in _resources(msgspec.json.decode(body)) if one["kind"] == "pod"
    ]
    assert {one["name"] for one in pods} == {"dns-1"}
    assert {one["status"]["phase"] for one in pods} == {"Pending", "Running", "Failed"}
    assert SECRETS[1].encode() in admin
    assert b"Pending" not in guessing
    assert b"Running" not in guessing


def _resources(body: dict[str, Any]) -> list[dict[str, Any]]:
    changes = body["resource-changes"]
    return [*changes["created"], *changes["deleted"], *changes["modified"]]
