# SPDX-License-Identifier: Apache-2.0
"""Many managers take leases, scale and register at once, while engines and API workers are killed.

``WATCHER_SYNC_LEASE_STORM`` (1) scales the numbers of managers and instances.
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.executables import BIN
from tests.functional.executables import start as started
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment

_SCALE = float(os.environ.get("WATCHER_SYNC_LEASE_STORM", "1"))
MANAGERS, INSTANCES = int(50 * _SCALE), int(20 * _SCALE)
ENGINE_KILLS, WORKER_KILLS = 5, 4
MOST_PODS = 4


def body(number: int, name: str = "demo") -> dict[str, Any]:
    """The registration of one instance; its levels are 0 to 3."""
    workload = {"kind": "Deployment", "name": f"vdu{number}"}
    return {
        "name": name,
        "cluster": "edge",
        "namespace": "default",
        "vnfd_id": "helloworld3",
        "flavour_id": "simple",
        "vdus": {"VDU1": {"workload": workload, "initial": 1, "min": 1, "max": MOST_PODS}},
        "aspects": {"aspect": {"max_scale_level": MOST_PODS - 1, "deltas": {"VDU1": 1}}},
    }


class Api:
    """The API under gunicorn, with two workers."""

    def __init__(self, site: Installation) -> None:
        self.port = free_port()
        command = [
            BIN / "gunicorn", "--bind", f"127.0.0.1:{self.port}", "--workers", "2", "--threads", "8",
            "--timeout", "120", "watcher_sync.wsgi.api:application",
        ]  # fmt: skip
        config = site.config(api__auth_strategy="noauth", api__write_rate=0)
        environment = {**os.environ, "OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
        self.log = site.folder / "gunicorn.log"
        self._process = started(command, self.log, environment)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=deadline(90))

    def workers(self) -> list[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def kill_worker(self, rng: random.Random) -> None:
        os.kill(rng.choice(wait_until(self.workers)), signal.SIGKILL)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(deadline(60))


class Storm:
    """The managers, what they were answered, and what holds."""

    def __init__(self, api: Api, server: KubernetesServer) -> None:
        self.answers: collections.Counter[tuple[str, int]] = collections.Counter()
        self.bad: list[str] = []
        self.ended = threading.Event()
        self._api, self._server = api, server
        self._lock = threading.Lock()
        """Guards the counts, the cluster, and who holds what."""
        self._holders: dict[int, int] = {}
        """Instance -> the manager that holds its lease and has not ended it."""

    def manage(self, manager: int) -> None:
        """What one manager does until the end."""
        rng = random.Random(manager)
        with self._api.client() as client:
            while not self.ended.wait(rng.uniform(0, 0.2)):
                number = rng.randrange(INSTANCES)
                if rng.random() < 0.3:
                    self._ask(client, "PUT", f"/v1/vnf_instances/v{number}", json=body(number, f"by-{manager}"))
                else:
                    self._operate(client, manager, number, rng)

    def _operate(self, client: httpx.Client, manager: int, number: int, rng: random.Random) -> None:
        path = f"/v1/vnf_instances/v{number}/operations"
        begun = self._ask(client, "POST", path, json={"operation": "SCALE", "holder": f"m{manager}"})
        if begun is None or begun.status_code != 201:
            return
        with self._lock:
            if number in self._holders:
                self.bad.append(f"v{number} has two holders: {self._holders[number]} and {manager}")
            self._holders[number] = manager
        headers = {"Operation-Secret": begun.json()["secret"]}
        operation = f"{path}/{begun.json()['id']}"
        with self._lock:
            self._server.cluster.scale("Deployment", f"vdu{number}", rng.randint(1, MOST_PODS))
            self._server.cluster.settle()
        self._ask(client, "PUT", operation, headers=headers)
        with self._lock:
            del self._holders[number]
        state = rng.choice(["COMPLETED", "FAILED"])
        while self._ask(client, "DELETE", operation, headers=headers, params={"state": state}) is None:
            pass

    def _ask(self, client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response | None:
        """The answer; None if the worker was killed before it answered."""
        try:
            answer = client.request(method, path, **more)
        except httpx.TransportError:
            return None
        with self._lock:
            self.answers[method, answer.status_code] += 1
            if answer.status_code >= 500:
                self.bad.append(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(4)
        for number in range(INSTANCES):
            server.create(deployment(f"vdu{number}", replicas=1))
        server.cluster.settle()
        yield server


def levels(client: httpx.Client) -> dict[str, Any]:
    found = client.get("/v1/vnf_instances?limit=1000").json()["vnf_instances"]
    return {vnf["id"]: (vnf["state"], (vnf["scale_level"] or {}).get("aspect")) for vnf in found}


def truth(server: KubernetesServer) -> dict[str, Any]:
    replicas = {obj["metadata"]["name"]: obj["spec"]["replicas"] for obj in server.objects("Deployment")}
    return {f"v{number}": ("SYNCED", replicas[f"vdu{number}"] - 1) for number in range(INSTANCES)}


@pytest.mark.timeout(deadline(900))
def test_after_a_storm_of_leases_and_kills_each_level_is_the_clusters(
    install: Callable[..., Installation],
    url: str,
    server: KubernetesServer,
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    rng = random.Random(7)
    site = install(url, engine__enabled_sources="edge")
    site.options |= {
        "source_edge.driver": "kubernetes",
        "source_edge.kubeconfig": server.kubeconfig(tmp_path / "edge"),
        "source_edge.backoff_max": 1,
        "reconcile.interval": 2,
        "reconcile.jitter": 0,
        "operations.lease_time": 600,
    }
    site.upgrade()
    api = Api(site)
    storm = Storm(api, server)

    def engine() -> EngineProcess:
        process = site.engine(site.config())
        process.wait_until_leading()
        return process

    try:
        client = api.client()
        wait_until(lambda: _answers(client), what="the API")
        for number in range(INSTANCES):
            assert client.put(f"/v1/vnf_instances/v{number}", json=body(number)).status_code == 201
        leading = engine()
        managers = [threading.Thread(target=storm.manage, args=(number,)) for number in range(MANAGERS)]
        for manager in managers:
            manager.start()
        for kill in range(ENGINE_KILLS):
            storm.ended.wait(rng.uniform(2, 5))
            leading.kill()
            if kill < WORKER_KILLS:
                api.kill_worker(rng)
            leading = engine()
        storm.ended.wait(deadline(5))
        storm.ended.set()
        for manager in managers:
            manager.join(deadline(120))
        assert not any(manager.is_alive() for manager in managers)
        print(sorted(storm.answers.items()))
        figure(f"{site.url.partition(':')[0]}: {sorted(storm.answers.items())}")
        assert not storm.bad, storm.bad[:5]
        for lease in client.get("/v1/leases?limit=1000").json()["leases"]:  # of workers that were killed meanwhile
            path = f"/v1/vnf_instances/{lease['entity_id']}/operations/{lease['id']}"
            assert client.delete(path, params={"force": "true"}).status_code in (204, 404, 409)
        wait_until(lambda: not client.get("/v1/leases").json()["leases"], what="no lease")
        wait_until(lambda: levels(client) == truth(server), what="the levels of the cluster")
        wait_until(lambda: not client.get("/v1/drifts?levels=true").json()["drifts"], what="no drift")
        assert storm.answers["POST", 201] > INSTANCES
        assert leading.terminate()[0] == 0
        site.check_journal()
    finally:
        storm.ended.set()
        api.stop()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/v1/vnf_instances").status_code == 200
    except (httpx.TransportError, json.JSONDecodeError):
        return False
