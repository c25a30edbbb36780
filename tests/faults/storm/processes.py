# SPDX-License-Identifier: Apache-2.0
"""The engines, the API and the outlet of a storm, which are started again when they are killed.

Each engine has a proxy of its own to the database server, so that its connections break alone. The API and the outlet
share one. SQLite has none. Two threads may break things at the same time: the lock guards kills and starts.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.engine.test_monitoring import ask
from tests.functional.webhooks.driving import outlet
from tests.services.servers import free_port
from tests.unit.engine.asking import figures
from tests.waiting import Deadline

_LEADER_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_BIN: Final = Path(sys.executable).parent
_API_OPTIONS: Final = {
    "api__auth_strategy": "noauth", "api__write_rate": 0, "api__stream_rate": 0, "database__journal_poll_interval": 0.1,
    "api__max_streams": 4,
}  # fmt: skip


class EngineSlot:
    """One engine of the group: its configuration, its proxy, and the process that runs now."""

    def __init__(self, site: Installation, database: int | None) -> None:
        self.proxy = FaultyProxy(database) if database is not None else None
        self.port = free_port()
        self._site = site
        self.config = site.config(
            database__connection=through(site.url, self.proxy), monitoring__port=self.port,
            monitoring__status_interval=0.5,
        )  # fmt: skip
        self.process = site.engine(self.config)
        self.starts = 1

    def start(self) -> None:
        """Start it if it does not run."""
        if not self.process.running:
            self.process = self._site.engine(self.config)
            self.starts += 1

    def holds(self, lease: str) -> bool:
        """Whether the holder of a lease is this engine.

        :param lease: the holder's name: host, boot, namespace, process and its start.
        """
        return self.process.running and lease.split("/")[-2:-1] in [[str(pid)] for pid in self.process.processes]

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 while the engine does not answer."""
        status, text = ask(self.port, "/metrics")
        return sum(figures(text).get(name, {}).values()) if status == 200 else 0.0


class Processes:
    """All processes of the installation.

    :param database: the port of the server; None: there is none.
    :param api: the port of the API.
    """

    def __init__(self, site: Installation, database: int | None, api: int) -> None:
        self._site = site
        self._lock = threading.RLock()
        """Guards the processes."""
        self.engines = [EngineSlot(site, database) for _ in range(2)]
        self._last_leader = self.engines[0]
        self.proxy = FaultyProxy(database) if database is not None else None
        """Of the API and the outlet."""
        self._config = site.config(database__connection=through(site.url, self.proxy), **_API_OPTIONS)
        self._api_port = api
        self.api = self._start_api()
        self.outlet = outlet(site, self._config)

    @property
    def database_proxies(self) -> list[FaultyProxy]:
        """Of the engines."""
        return [slot.proxy for slot in self.engines if slot.proxy is not None]

    @property
    def _proxies(self) -> list[FaultyProxy]:
        return self.database_proxies + ([self.proxy] if self.proxy is not None else [])

    def leader(self) -> EngineSlot:
        """The engine that holds the lease, after some waiting for one; the last one that did if none does."""
        limit = Deadline(_LEADER_SECONDS)
        while not limit.is_over:
            holder = self._holder()
            found = next((slot for slot in self.engines if slot.holds(holder)), None)
            if found is not None:
                self._last_leader = found
                break
            time.sleep(_POLL_SECONDS)
        return self._last_leader

    def _holder(self) -> str:
        """The holder of the lease in the database; empty while there is none or the database is away."""
        t = self._site.store.tables.leases
        try:
            with self._site.store.database.connect() as connection:
                query = sa.select(t.c.holder).where(t.c.name.like("engine:%"))
                return str(connection.execute(query).scalar() or "")
        except Exception:  # noqa: BLE001 - the database is away
            return ""

    def standby(self) -> EngineSlot:
        """The other one."""
        leader = self.leader()
        return next(slot for slot in self.engines if slot is not leader)

    def kill_engine(self, slot: EngineSlot) -> None:
        with self._lock:
            slot.process.kill()

    def kill_api(self) -> None:
        with self._lock:
            self.api.kill()

    def kill_outlet(self) -> None:
        with self._lock:
            self.outlet.kill()

    def freeze(self, slot: EngineSlot) -> EngineProcess:
        """Stop all processes of an engine until SIGCONT."""
        process = slot.process
        process.signal_all(signal.SIGSTOP)
        return process

    def start(self) -> None:
        """Start what does not run, as a service manager does."""
        with self._lock:
            for slot in self.engines:
                slot.start()
            if not self.api.running:
                self.api = self._start_api()
            if not self.outlet.running:
                self.outlet = outlet(self._site, self._config)

    def heal(self) -> None:
        """Connections as they were, and all processes running."""
        for proxy in self._proxies:
            heal(proxy)
        self.start()

    def close(self) -> None:
        """The installation kills the processes."""
        for proxy in self._proxies:
            proxy.cut()

    def _start_api(self) -> EngineProcess:
        site = self._site
        command = [
            str(_BIN / "gunicorn"), "--bind", f"127.0.0.1:{self._api_port}", "--workers", "1", "--threads", "12",
            "--graceful-timeout", "1", "watcher_sync.wsgi.api:application",
        ]  # fmt: skip
        environment = {**site.environment, "OS_WATCHER_SYNC_CONFIG_FILES": str(self._config)}
        process = EngineProcess(command, site.folder / f"api-{len(site.engines) + 1}.log", environment)
        site.engines.append(process)
        return process


def through(url: str, proxy: FaultyProxy | None) -> str:
    """The same address through a proxy, if there is one."""
    return sa.make_url(url).set(port=proxy.port).render_as_string(hide_password=False) if proxy is not None else url


def heal(proxy: FaultyProxy) -> None:
    """Accept connections and pass everything on; connections that are silent or half closed are reset."""
    proxy.resume()
    proxy.refuse()
    proxy.restore()
    proxy.reset()
