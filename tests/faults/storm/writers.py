# SPDX-License-Identifier: Apache-2.0
"""Nova, DCM, Kubernetes and the clients of the API, all at once.

Each writer repeats a write whose outcome it does not know, so its truth is exact. A repeated write changes nothing.
"""

from __future__ import annotations

import abc
import random
import threading
import time
from pathlib import Path
from typing import Any, Final

import httpx
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from tests.faults.storm.plan import Settings
from tests.functional.engine.driving import Line
from tests.functional.sources.jetstream import Dcm
from tests.waiting import Deadline, deadline
from watcher_sync.client import connect
from watcher_sync.client.errors import ClientError
from watcher_sync.demo.live_cluster import LiveCluster
from watcher_sync.demo.live_managers import LiveManagers
from watcher_sync.demo.live_providers import LiveProviders
from watcher_sync.testing.dcm.providers import Message, ProviderSimulator
from watcher_sync.testing.dcm.publisher import Document
from watcher_sync.testing.ledger import Truth
from watcher_sync.testing.nova.cloud import CloudSimulator

ROWS: Final = "/v1/service_type_instances"
CLUSTER: Final = "edge"

_AWAY: Final = (NatsError, APIError, OSError)
_ROWS_OF_OWN: Final = 40
_PUT_SECONDS: Final = 0.2
_LOT_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 180.0
_EMPTY_ROW: Final = dict.fromkeys(
    (
        "spec", "provider_name", "agent_name", "status", "status_message", "status_updated_at", "output_spec",
        "provider_state",
    )
)  # fmt: skip


class Api:
    """Requests that are repeated until the API has answered them. Any thread.

    :param url: the API's; a killed API comes back there.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.repeated = 0
        self._client = httpx.Client(base_url=url, timeout=deadline(10))

    def write(self, method: str, path: str, body: Document, accepted: tuple[int, ...]) -> int:
        """Write until an accepted status comes. A conflict of a repeated request is accepted, too.

        :raises AssertionError: the API refuses, or does not come back.
        """
        limit = Deadline(_PATIENCE_SECONDS)
        is_repeated = False
        while True:
            status, text = self._send(method, path, body)
            if status in accepted or (is_repeated and status == 409):
                return status
            assert status in (0, 429, 500, 502, 503, 504), f"{method} {path}: {status} {text}"
            assert not limit.is_over, f"{method} {path}: no answer but {status} {text}"
            is_repeated = True
            self.repeated += 1
            time.sleep(0.1)

    def close(self) -> None:
        self._client.close()

    def _send(self, method: str, path: str, body: Document) -> tuple[int, str]:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.TransportError as exc:
            return 0, str(exc)
        return answer.status_code, answer.text


class _Thread(abc.ABC):
    """A writer in a thread; what ends it before its time is raised by :meth:`stop`."""

    def __init__(self, name: str) -> None:
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> bool:
        """Begin nothing more; whether the thread ended."""
        self.stopping.set()
        self._thread.join(_PATIENCE_SECONDS)
        return not self._thread.is_alive()

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as exc:  # noqa: BLE001 - the storm reports it
            self.failure = exc

    @abc.abstractmethod
    def run(self) -> None:
        """The writer's work, until :attr:`stopping` is set."""


class NovaWriter(_Thread):
    """A cloud that publishes to RabbitMQ."""

    def __init__(self, line: Line, *, seed: int, rate: float) -> None:
        super().__init__("nova")
        self.cloud = CloudSimulator(seed=seed, hosts=20, instances=200)
        self.published = 0
        self._line = line
        self._lot = max(1, round(rate * _LOT_SECONDS))
        self._rate = rate

    def run(self) -> None:
        while not self.stopping.is_set():
            self._line.publish(self.cloud.history(self._lot), rate=self._rate)
            self.published += self._lot


class ApiWriter(_Thread):
    """A client that writes rows of its own again and again."""

    def __init__(self, api: Api, *, seed: int) -> None:
        super().__init__("api-writer")
        self.written = 0
        self._api = api
        self._rng = random.Random(seed)
        self._rows: dict[str, dict[str, Any]] = {}

    def truth(self) -> dict[str, dict[str, Any]]:
        """id -> field -> value."""
        return dict(self._rows)

    def run(self) -> None:
        while not self.stopping.wait(_PUT_SECONDS):
            row = f"own-{self._rng.randrange(_ROWS_OF_OWN)}"
            body = {"service_type": "vm", "instance_name": f"name-{self.written}"}
            self._api.write("PUT", f"{ROWS}/{row}", body, (200, 201))
            self._rows[row] = {**_EMPTY_ROW, **body, "id": row}
            self.written += 1


class _Stream:
    """The way of DCM's messages, which repeats what the server did not confirm. The server drops duplicates."""

    keeps_order = True

    def __init__(self, dcm: Dcm) -> None:
        self._dcm = dcm

    def publish(self, message: Message) -> None:
        limit = Deadline(_PATIENCE_SECONDS)
        headers = {"Nats-Msg-Id": str(message.sequence[1])}
        while True:
            try:
                # Without an answer the publisher tries again.
                publish = self._dcm.js.publish(message.subject, message.body, headers=headers, timeout=deadline(1))
                self._dcm.do(publish, deadline(10))
                return
            except (*_AWAY, TimeoutError):
                assert not limit.is_over, "the NATS server does not come back"
                time.sleep(0.05)

    def settled(self) -> bool:
        try:
            return self._dcm.settled()
        except (*_AWAY, TimeoutError):
            return False


class _PatientManagers(LiveManagers):
    """Managers that try again when the API does not answer."""

    unanswered = 0

    def _operate(self, *arguments: Any) -> None:
        try:
            super()._operate(*arguments)
        except ClientError:
            self.unanswered += 1


class Writers:
    """All writers of a storm.

    :param line: Nova's, without a proxy.
    :param dcm: the control plane's client, without a proxy.
    :param kubeconfig: is written for the fake API server.
    """

    def __init__(self, settings: Settings, line: Line, dcm: Dcm, api_url: str, kubeconfig: Path) -> None:
        seed = settings.seed
        self.api = Api(api_url)
        self.nova = NovaWriter(line, seed=seed, rate=settings.nova_rate)
        self.providers = LiveProviders(
            ProviderSimulator(seed=seed, instances=300), _Stream(dcm),
            lambda row: self.api.write("POST", ROWS, row, (201,)) and None, rate=settings.dcm_rate, seed=seed,
        )  # fmt: skip
        self.rows = ApiWriter(self.api, seed=seed)
        self.cluster = LiveCluster(CLUSTER, rate=settings.kubernetes_rate, seed=seed)
        self.cluster.listen(kubeconfig)
        self.managers = _PatientManagers(
            lambda: connect(api_url, timeout=deadline(10)), self.cluster.functions, self.cluster, seed=seed,
            work=(0.1, 0.6), pause=(0.1, 0.5),
        )  # fmt: skip

    def register(self) -> list[str]:
        """Register the VNF instances; their ids."""
        for function in self.cluster.functions:
            self.api.write("POST", "/v1/vnf_instances", function.registration(CLUSTER), (201,))
        return [function.id for function in self.cluster.functions]

    def start(self) -> None:
        """Let everything happen."""
        for writer in (self.nova, self.providers, self.rows, self.cluster, self.managers):
            writer.start()

    def stop(self) -> None:
        """Begin nothing more, and bring the cluster to rest.

        :raises AssertionError: a writer does not end, or ended before its time.
        """
        ended = {
            "nova": self.nova.stop(), "rows": self.rows.stop(), "providers": self.providers.stop(_PATIENCE_SECONDS),
            "managers": self.managers.stop(_PATIENCE_SECONDS), "cluster": self.cluster.stop(_PATIENCE_SECONDS),
        }  # fmt: skip
        assert all(ended.values()), f"still writing: {[name for name, done in ended.items() if not done]}"
        for writer in (self.nova, self.rows, self.providers, self.managers, self.cluster):
            if writer.failure is not None:
                raise AssertionError(f"{type(writer).__name__} ended before its time") from writer.failure

    def truth(self) -> Truth:
        """What the model has to hold; only after :meth:`stop`."""
        told = self.providers.truth()
        instances = {**told["service_type_instance"], **self.rows.truth()}
        return {
            **self.nova.cloud.reported(), **told, "service_type_instance": instances, **self.cluster.truth(),
        }  # fmt: skip

    def counts(self) -> dict[str, int]:
        """Source -> what it wrote."""
        return {
            "nova": self.nova.published,
            "dcm": self.providers.published,
            "edge": self.cluster.counts.total(),
            "api rows": self.rows.written,
            "operations": self.managers.completed,
            "refused operations": self.managers.refused,
        }

    def close(self) -> None:
        self.api.close()
        self.cluster.close()
