# SPDX-License-Identifier: Apache-2.0
"""Two installations that follow one Ironic: with notifications alone, and with reconciliation, too.

Each runs an engine, whose queue exists before the first step. Reconciliation runs once after each step, as
``watcher-sync-manage reconcile`` does it, but in this process.
"""

from __future__ import annotations

import re
import time
import urllib.request
from pathlib import Path

import kombu

from tests.functional.engine.driving import EngineProcess, Installation
from tests.real_ironic.cloud import EXCHANGE, TOPIC, Cloud
from tests.real_ironic.recording import bind_queue
from tests.real_ironic.truth import KINDS, Truth
from tests.real_nova.recording import amqp_url
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.assembly import process
from watcher_sync.assembly.reconcile import make_reconcilers
from watcher_sync.dispatch import load_handlers
from watcher_sync.reconcile.base import Reconciler, Report

_SECONDS = 60.0
_COUNTED = re.compile(r'^watcher_sync_events_total\{[^}]*source="ironic"[^}]*\} ([0-9.e+]+)', re.MULTILINE)


class Follower:
    """One installation that follows Ironic.

    :param name: of its queue.
    :param folder: for its database and its logs.
    """

    def __init__(self, name: str, cloud: Cloud, folder: Path) -> None:
        self._port = free_port()
        self._pool = f"watcher-sync-{name}"
        folder.mkdir(parents=True)
        options: dict[str, object] = {
            "engine.enabled_sources": "ironic",
            "source_ironic.driver": "rabbitmq",
            "source_ironic.transport_url": cloud.transport_url,
            "source_ironic.exchange": EXCHANGE,
            "source_ironic.topics": TOPIC,
            "source_ironic.pool": self._pool,
            "monitoring.port": self._port,
            "monitoring.status_interval": 0.5,
            # The engine's own runs would hide what each step needs.
            "reconcile.enabled": False,
            "reconcile.max_delete_percent": 100,
        }
        options |= {f"reconciler_ironic.{name}": value for name, value in cloud.login.items()}
        self.installation = Installation(folder, f"sqlite:///{folder / 'model.sqlite'}", options)
        self.installation.upgrade()
        self.config = self.installation.config()
        self._cloud = cloud
        self._engine: EngineProcess | None = None
        self._reconciler: Reconciler | None = None

    def start(self) -> None:
        """Create the queue, and start the engine."""
        with kombu.Connection(amqp_url(self._cloud.transport_url)) as connection:
            bind_queue(connection, self._pool)
        self._engine = self.installation.engine(self.config)
        self._engine.wait_until_leading()

    def settle(self, published: int) -> None:
        """Wait until the engine has committed all that was published.

        :raises AssertionError: it has not.
        """
        wait_until(lambda: self._count() >= published, _SECONDS, f"{published} events")

    def reconcile(self) -> Report:
        """Compare with the API once.

        :raises ReconcileError: it failed.
        """
        if self._reconciler is None:
            conf = process.make_conf(
                ["--config-file", str(self.config)], prog="watcher-sync-manage", log_to_stderr_only_warnings=True
            )
            made = make_reconcilers(conf, self.installation.store, load_handlers(conf))
            (self._reconciler,) = (one for one in made if one.name == "ironic")
        return self._reconciler.run("ironic", deadline=time.monotonic() + deadline(_SECONDS))

    def model(self) -> Truth:
        """Kind -> id -> fields, as the tables have them."""
        snapshot = self.installation.store.load().snapshot()
        return {kind: {row["id"]: row for row in snapshot.dump(kind)} for kind in KINDS}

    def stop(self) -> None:
        """End the engine in good order."""
        if self._engine is not None and self._engine.running:
            self._engine.terminate()
        self.installation.__exit__(None, None, None)

    def _count(self) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=deadline(5)) as answer:
            return sum(float(number) for number in _COUNTED.findall(answer.read().decode()))
