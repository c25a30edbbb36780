# SPDX-License-Identifier: Apache-2.0
"""Three installations that follow one cloud: with notifications, with reconciliation, and with both.

Each has a database of its own. The installations with notifications run an engine, whose queue exists before the first
step. Reconciliation runs once after each step, as ``watcher-sync-manage reconcile`` does it, but in this process. So
the comparison knows which facts only that run brought.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kombu

from tests.functional.engine.driving import EngineProcess, Installation
from tests.real_nova.cloud import EXCHANGE, TOPIC, Cloud
from tests.real_nova.recording import amqp_url, bind_queue
from tests.real_nova.truth import KINDS, Rows
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.assembly import process
from watcher_sync.assembly.reconcile import make_reconcilers
from watcher_sync.dispatch import load_handlers
from watcher_sync.reconcile.base import Reconciler, Report

SOURCES = ("nova", "nova_cell2")
"""One source for the message bus of each cell."""
SCOPES = ("nova", "placement")
"""The scopes of the reconcilers."""

NOTIFICATIONS, RECONCILIATION, BOTH = "notifications", "reconciliation", "both"

_SETTLE_SECONDS = 60.0
_RUN_SECONDS = 60.0
_COUNTED = re.compile(r'^watcher_sync_events_total\{[^}]*source="nova\w*"[^}]*\} ([0-9.e+]+)', re.MULTILINE)


class Follower:
    """One installation that follows the cloud.

    :param mode: NOTIFICATIONS, RECONCILIATION or BOTH.
    :param folder: an empty folder for its database and its logs.
    :param name: of its queue; None: the mode.
    :param options: ``group.option`` -> value, beside its own or in their place.
    """

    scopes: Sequence[str] = SCOPES
    kinds: Sequence[str] = KINDS
    counted = _COUNTED

    def __init__(
        self,
        mode: str,
        cloud: Any,
        folder: Path,
        *,
        name: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.mode = mode
        self.pool = f"watcher-sync-{name or mode}"
        """The queue of its engine."""
        self.listens = mode in (NOTIFICATIONS, BOTH)
        self.reconciles = mode in (RECONCILIATION, BOTH)
        self._port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self.installation = Installation(
            folder, f"sqlite:///{folder / 'model.sqlite'}", self._options(cloud) | dict(options or {})
        )
        self.installation.upgrade()
        self.config = self.installation.config()
        self.engine: EngineProcess | None = None
        self._reconcilers: dict[str, Reconciler] = {}
        """Scope -> reconciler; made at the first comparison."""

    def _options(self, cloud: Any) -> dict[str, object]:
        options: dict[str, object] = {"engine.enabled_sources": ",".join(SOURCES) if self.listens else ""}
        if self.listens:
            for source, url in zip(SOURCES, cloud.transport_urls, strict=True):
                of_source = {
                    "driver": "rabbitmq",
                    "transport_url": url,
                    "exchange": EXCHANGE,
                    "topics": TOPIC,
                    "pool": self.pool,
                }
                options |= {f"source_{source}.{name}": value for name, value in of_source.items()}
            options |= {"monitoring.port": self._port, "monitoring.status_interval": 0.5}
        if self.reconciles:
            options |= {"reconcile_nova.enabled": True, "reconcile.max_delete_percent": 100}
            options |= {"reconcile_capacity.providers": "placement"}
            options |= {f"reconcile_nova.{name}": value for name, value in cloud.login.items()}
        # The engine's own runs would hide what each step needs.
        return options | {"reconcile.enabled": False}

    def bind(self, cloud: Any) -> None:
        """Create the queues of the engine, so that it has everything that is published from now on."""
        for url in cloud.transport_urls if self.listens else ():
            with kombu.Connection(amqp_url(url)) as connection:
                bind_queue(connection, self.pool)

    def start(self) -> None:
        """Start the engine, where this installation has one."""
        if self.listens:
            self.engine = self.installation.engine(self.config)
            self.engine.wait_until_leading()

    def settle(self, published: int) -> None:
        """Wait until the engine has committed all that was published.

        :raises AssertionError: it has not.
        """
        if self.listens:
            wait_until(lambda: self._count() >= published, _SETTLE_SECONDS, f"{published} events in {self.mode}")

    def reconcile(self) -> Sequence[Report]:
        """Compare with the APIs once.

        :raises ReconcileError: it failed.
        """
        if not self._reconcilers:
            conf = process.make_conf(
                ["--config-file", str(self.config)], prog="watcher-sync-manage", log_to_stderr_only_warnings=True
            )
            made = make_reconcilers(conf, self.installation.store, load_handlers(conf))
            self._reconcilers.update({scope: one for one in made for scope in one.scopes()})
        return [
            self._reconcilers[scope].run(scope, deadline=time.monotonic() + deadline(_RUN_SECONDS))
            for scope in self.scopes
        ]

    def model(self) -> dict[str, Rows]:
        """Kind -> id -> fields, as the tables have them."""
        snapshot = self.installation.store.load().snapshot()
        return {kind: {row["id"]: row for row in snapshot.dump(kind)} for kind in self.kinds}

    def stop(self) -> None:
        """End the engine in good order."""
        if self.engine is not None and self.engine.running:
            self.engine.terminate()
        self.installation.__exit__(None, None, None)

    def _count(self) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=deadline(5)) as answer:
            return sum(float(number) for number in self.counted.findall(answer.read().decode()))


def followers(cloud: Cloud, folder: Path) -> Mapping[str, Follower]:
    """Mode -> installation; none is started."""
    return {mode: Follower(mode, cloud, folder / mode) for mode in (NOTIFICATIONS, RECONCILIATION, BOTH)}
