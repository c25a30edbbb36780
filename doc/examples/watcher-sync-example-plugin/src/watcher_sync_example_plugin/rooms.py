# SPDX-License-Identifier: Apache-2.0
"""The power of rooms: a section, a resource, a service of the engine, a check and a command, in one extension.

The imports that only some processes need are in the methods, so that no other process waits for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from watcher_sync.extension import Api, Examined, Extension, ManageCommand

LOG = logging.getLogger(__name__)

OPTIONS = [
    cfg.IntOpt("max_watts", default=10_000, min=0, help="What the racks of one room may draw, W; 0: any power."),
    cfg.FloatOpt("interval", default=60.0, min=0.1, help="Seconds between two checks of the rooms by the engine."),
]


class RoomExtension(Extension):
    """The power of rooms."""

    def options(self) -> Iterable[tuple[str, Sequence[cfg.Opt]]]:
        return [("rooms", OPTIONS)]

    def routes(self, api: Api) -> Iterable[tuple[str, object]]:
        from watcher_sync_example_plugin.rooms_api import RoomList

        return [("/v1/rooms", RoomList(api))]

    def engine_services(self, conf: cfg.ConfigOpts, context: Callable[[Any], Any]) -> Iterable[Callable[[Any], Any]]:
        return [lambda engine: RoomAlarm(conf, context(engine).view)]

    def upgrade_checks(self, examined: Examined) -> Iterable[tuple[str, Callable[[], Any]]]:
        from oslo_upgradecheck.upgradecheck import Code, Result

        def check() -> Result:
            if examined.conf.rooms.max_watts:
                return Result(Code.SUCCESS)
            return Result(Code.WARNING, "[rooms] max_watts is 0: no room raises an alarm.")

        return [("Power of rooms", check)]

    def commands(self) -> Iterable[ManageCommand]:
        return [
            ManageCommand(
                name="rooms",
                work="watcher_sync_example_plugin.rooms_command:print_rooms",
                text="Show the power that each room draws, W.",
            )
        ]


class RoomAlarm:
    """Logs each room that begins to draw too much. It runs while its engine leads."""

    title = "Rooms"

    def __init__(self, conf: cfg.ConfigOpts, view: Callable[[], Any]) -> None:
        self._conf = conf
        self._view = view
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._watts: Mapping[str, int] = {}
        self._over: set[str] = set()

    def start(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rooms", daemon=True)
        self._thread.start()

    def begin_stop(self) -> None:
        self._stopping.set()

    def join(self, timeout: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def collect(self) -> Iterator[Any]:
        from prometheus_client.metrics_core import GaugeMetricFamily

        gauge = GaugeMetricFamily("example_room_watts", "What the racks of a room draw.", labels=["room"])
        for room, watts in self._watts.items():
            gauge.add_metric([room], watts)
        yield gauge

    def report(self) -> Mapping[str, Any]:
        return {"watts": dict(self._watts)}

    def _run(self) -> None:
        while not self._stopping.wait(self._conf.rooms.interval):
            self._check()

    def _check(self) -> None:
        found: dict[str, int] = {}
        for rack in self._view().all("rack"):
            if rack.room is not None:
                found[rack.room] = found.get(rack.room, 0) + (rack.watts or 0)
        limit = self._conf.rooms.max_watts
        over = {room for room, watts in found.items() if limit and watts > limit}
        for room in sorted(over - self._over):
            LOG.warning("Room %s draws %d W, and %d W are allowed", room, found[room], limit)
        self._watts, self._over = found, over
