# SPDX-License-Identifier: Apache-2.0
"""The faults of a storm, each with its name. Each method lasts as long as its fault, and leaves things in order.

What is optional and why is in :mod:`tests.faults.storm.plan`.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from typing import Final

from tests.faults.storm.database import Database
from tests.faults.storm.processes import EngineSlot, Processes, heal
from tests.faults.storm.writers import CLUSTER, Writers
from tests.faulty_proxy import DOWN, UP, FaultyProxy
from tests.functional.engine.test_sighup_at_start import handles_sighup
from tests.functional.sources.jetstream import STREAM, Dcm
from tests.services.rabbitmq import RabbitMQNode
from tests.services.servers import Server
from tests.waiting import deadline, wait_until
from watcher_sync.testing.kubernetes import error_event

ENGINE_SOURCES: Final = ("nova", "dcm", CLUSTER)
_SOURCE_OF: Final = {"rabbitmq": "nova", "nats": "dcm", "kubernetes": CLUSTER}
_INTERPRETER_SECONDS: Final = 60.0
_BACKUP_SECONDS: Final = (0.5, 6.0)
_NO_PROGRESS: Final = error_event(
    500, "InternalError", "the required storage feature RequestWatchProgress is disabled"
)  # fmt: skip


def sources_of(name: str) -> tuple[str, ...]:
    """The sources whose commits a fault interrupts."""
    return next(((source,) for word, source in _SOURCE_OF.items() if word in name), ENGINE_SOURCES)


class Ingredients:
    """What can happen to the installation.

    :param proxies: the name of a connection -> its proxies, without those to the database.
    :param node: the RabbitMQ of the storm's own, if it has one.
    """

    def __init__(
        self, processes: Processes, database: Database, nats: Server, dcm: Dcm, writers: Writers,
        proxies: dict[str, FaultyProxy], node: RabbitMQNode | None, rng: random.Random,
    ) -> None:  # fmt: skip
        self._processes = processes
        self._database = database
        self._nats = nats
        self._dcm = dcm
        self._writers = writers
        self._proxies = proxies
        self._node = node
        self._rng = rng

    def run(self, name: str, seconds: float) -> None:
        """One fault, to its end."""
        way, _, connection = name.partition(" ")
        if connection:
            self._break(way, self._chosen(connection), seconds)
        else:
            action: Callable[[float], None] = getattr(self, name)
            action(seconds)

    def heal(self) -> None:
        """Everything as at the beginning."""
        for proxy in self._proxies.values():
            heal(proxy)
        for server in (self._database.server, self._nats, self._node):
            if server is not None:
                server.start()
        self._writers.cluster.server.start()
        self._database.set_read_only(False)
        self._processes.heal()

    def _chosen(self, connection: str) -> FaultyProxy:
        if connection == "database":
            return self._rng.choice(self._processes.database_proxies)
        if connection == "database-api":
            assert self._processes.proxy is not None
            return self._processes.proxy
        return self._proxies[connection]

    def _break(self, way: str, proxy: FaultyProxy, seconds: float) -> None:
        match way:
            case "cut":
                proxy.reset()
            case "half_close_up":
                proxy.half_close(UP)
            case "half_close_down":
                proxy.half_close(DOWN)
            case "freeze":
                proxy.stall(UP, DOWN)
                time.sleep(seconds)
                proxy.resume()
            case "refuse":
                proxy.cut()
                time.sleep(seconds)
                proxy.restore()

    # Processes

    @contextlib.contextmanager
    def _again(self, seconds: float) -> Iterator[None]:
        """What is killed inside is started again after some seconds."""
        yield
        time.sleep(seconds / 2)
        self._processes.start()

    def kill_leader(self, seconds: float) -> None:
        with self._again(seconds):
            self._processes.kill_engine(self._processes.leader())

    def kill_standby(self, seconds: float) -> None:
        with self._again(seconds):
            self._processes.kill_engine(self._processes.standby())

    def kill_api(self, seconds: float) -> None:
        with self._again(seconds / 4):
            self._processes.kill_api()

    def kill_outlet(self, seconds: float) -> None:
        with self._again(seconds):
            self._processes.kill_outlet()

    def freeze_leader(self, seconds: float) -> None:
        process = self._processes.freeze(self._processes.leader())
        time.sleep(seconds + 1)
        process.signal_all(signal.SIGCONT)

    def stop_leader(self, seconds: float) -> None:
        """As an operator stops it, and starts it again."""
        with self._again(seconds):
            process = self._processes.leader().process
            if process.running:
                process.signal(signal.SIGTERM)
                with contextlib.suppress(Exception):
                    process.wait(deadline(20))

    def leader_machine_stops(self, seconds: float) -> None:
        with self._again(seconds + 6):
            self._silent(self._processes.leader(), kill=True)

    def silent_connections(self, seconds: float) -> None:
        self._silent(self._processes.leader(), kill=False)
        time.sleep(seconds)

    def _silent(self, slot: EngineSlot, *, kill: bool) -> None:
        assert slot.proxy is not None
        slot.proxy.silence()
        if kill:
            self._processes.kill_engine(slot)

    def sighup_at_start(self, seconds: float) -> None:
        slot = self._processes.standby()
        self._processes.kill_engine(slot)
        slot.start()
        process = slot.process
        # SIGHUP ends a bare interpreter: no code of ours can run before its start has ended.
        wait_until(lambda: handles_sighup(process.pid), _INTERPRETER_SECONDS)
        time.sleep(seconds / 4)
        process.signal(signal.SIGHUP)
        time.sleep(1)  # wait: the engine ends within a second, or not at all
        if not process.running:
            raise AssertionError(
                f"SIGHUP {seconds / 4:.2f} s after its first line ended the engine:\n{process.log[-2000:]}"
            )

    # The database

    @property
    def _server(self) -> Server:
        assert self._database.server is not None
        return self._database.server

    def terminate_sessions(self, _seconds: float) -> None:
        self._database.terminate_sessions()

    def read_only(self, seconds: float) -> None:
        self._database.set_read_only(True)
        time.sleep(seconds)
        self._database.set_read_only(False)

    def restart_database(self, seconds: float) -> None:
        server = self._server
        server.stop()
        time.sleep(seconds / 2)
        server.start()

    def kill_database(self, seconds: float) -> None:
        server = self._server
        server.kill()
        time.sleep(seconds / 2)
        server.start()

    def failover_to_lagging_standby(self, _seconds: float) -> None:
        self._go_back(self._rng.uniform(*_BACKUP_SECONDS) / 4)

    def restored_database(self, _seconds: float) -> None:
        self._go_back(self._rng.uniform(*_BACKUP_SECONDS))

    def _go_back(self, seconds: float) -> None:
        self._database.save()
        time.sleep(seconds)
        self._database.restore()

    # The sources

    def restart_nats(self, seconds: float) -> None:
        self._nats.stop()
        time.sleep(seconds / 2)
        self._nats.start()

    def kill_nats(self, seconds: float) -> None:
        self._nats.kill()
        time.sleep(seconds / 2)
        self._nats.start()

    def restored_stream(self, seconds: float) -> None:
        folder, saved = self._nats.home / "jetstream", self._nats.home / "saved"
        self._nats.stop()
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(folder, saved)
        self._nats.start()
        time.sleep(seconds + 1)
        self._nats.stop()
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
        self._nats.start()

    def discarded_messages(self, seconds: float) -> None:
        """While no engine reads the stream, its oldest messages go."""
        proxy = self._proxies["nats"]
        proxy.cut()
        time.sleep(seconds)
        self._dcm.do(self._dcm.js.purge_stream(STREAM))
        proxy.restore()

    def restart_rabbitmq(self, _seconds: float) -> None:
        assert self._node is not None
        self._node.stop()
        self._node.start()

    def kubernetes_410(self, _seconds: float) -> None:
        self._writers.cluster.server.fail(error_event(410), count=3)

    def kubernetes_away(self, seconds: float) -> None:
        self._writers.cluster.server.stop()
        time.sleep(seconds)
        self._writers.cluster.server.start()

    def watch_list_refused(self, _seconds: float) -> None:
        server = self._writers.cluster.server
        server.fail(error_event(410), count=3)
        server.fail(_NO_PROGRESS, count=20, when=lambda request: "sendInitialEvents" in request.query)
