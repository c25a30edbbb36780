# SPDX-License-Identifier: Apache-2.0
"""Where a benchmark runs: recordings that are made once, and fresh databases with the configuration for each.

The recordings are what a simulated cloud publishes, written to files once a run. A database is an SQLite
file of one measurement's own, made with the real migrations, opened as every process of ours opens it.
One thread.
"""

from __future__ import annotations

import itertools
import pathlib
import random
import time
from collections.abc import Iterable

import msgspec
from oslo_config import cfg

from tests.services.ensure import url_of
from watcher_sync.cmd import process
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.engine import assembly
from watcher_sync.engine.replay import replay
from watcher_sync.sources.replay import read_events
from watcher_sync.storage import schema
from watcher_sync.storage.store import Store
from watcher_sync.testing.cloud import CloudSimulator
from watcher_sync.testing.poison import poison
from watcher_sync.testing.recording import write_jsonl

_SMALL = 65_536


class Scale(msgspec.Struct, frozen=True):
    """How much is measured."""

    hosts: int
    instances: int
    changes: int
    """Events after all instances are there."""
    pairs: int
    messages: int
    """Messages that go through the broker in one measurement."""
    naive: int
    """Events that the naive pipeline gets."""
    lone: int
    """Lone events whose latency is taken."""
    slice: int
    """Events of the replay with and without poison."""
    many: int
    """Instances of the large snapshot."""


FULL = Scale(hosts=1000, instances=20_000, changes=5_000, pairs=3, messages=15_000, naive=2_000, lone=100,
             slice=15_000, many=100_000)  # fmt: skip
QUICK = Scale(hosts=100, instances=2_000, changes=500, pairs=1, messages=4_000, naive=300, lone=20,
              slice=4_000, many=100_000)  # fmt: skip


class Place:
    """One measurement's database and configuration."""

    def __init__(self, folder: pathlib.Path, **sections: dict[str, object]) -> None:
        folder.mkdir()
        self.database = folder / "watcher-sync.sqlite"
        lines = ["[DEFAULT]", f"state_path = {folder}", "[database]", f"connection = sqlite:///{self.database}"]
        for section, options in sections.items():
            lines += [f"[{section}]", *(f"{name} = {value}" for name, value in options.items())]
        file = folder / "watcher-sync.conf"
        file.write_text("\n".join(lines) + "\n")
        self.conf: cfg.ConfigOpts = process.make_conf(
            ["--config-file", str(file)], prog="benchmark", log_to_stderr_only_warnings=True
        )
        self.store: Store = assembly.open_store(self.conf, checked=False)
        schema.upgrade(self.store.engine, self.store.tables)
        self.dispatcher: Dispatcher = load_handlers(self.conf)

    def replay(self, path: pathlib.Path) -> tuple[int, float]:
        """Replay a recording as ``watcher-sync-manage replay`` does; (events, events a second)."""
        events = read_events([str(path)], "nova")
        began = time.perf_counter()
        result = replay(self.store, self.dispatcher, events, batch_size=self.conf.engine.batch_size)
        return int(result["read"]), result["read"] / (time.perf_counter() - began)


class Bench:
    """What all benchmarks of one run share."""

    def __init__(self, folder: pathlib.Path, scale: Scale) -> None:
        self.folder = folder
        self.scale = scale
        self._made: dict[str, pathlib.Path] = {}
        self._numbers = itertools.count()

    def place(self, **sections: dict[str, object]) -> Place:
        """A fresh one.

        :param sections: configuration: group -> option -> value.
        """
        return Place(self.folder / f"place-{next(self._numbers)}", **sections)

    @property
    def broker(self) -> str:
        """RabbitMQ's URL, as oslo.messaging takes it."""
        return str(url_of("rabbitmq"))

    def history(self) -> pathlib.Path:
        """The whole cloud comes up, and then changes."""
        scale = self.scale
        if "history" not in self._made:
            cloud = CloudSimulator(seed=1, hosts=scale.hosts, instances=scale.instances)
            events = itertools.chain(cloud.populate(), itertools.islice(cloud.events(), scale.changes))
            self._made["history"] = self._write("history", events)
        return self._made["history"]

    def part(self) -> pathlib.Path:
        """A cloud of a tenth of the size, for what is measured on fewer events."""
        if "part" not in self._made:
            self._made["part"] = self._write("part", self.part_events(self.scale.slice))
        return self._made["part"]

    def part_events(self, count: int) -> list[dict[str, object]]:
        """The first events of that cloud."""
        return CloudSimulator(seed=2, hosts=100, instances=2_000).history(count)

    def poisoned(self) -> pathlib.Path:
        """The same as :meth:`part`, one event in a hundred replaced by one that belongs into quarantine."""
        if "poisoned" not in self._made:
            bodies = [item.raw for item in poison(random.Random(3)) if item.quarantine and _fits_a_line(item.raw)]
            venom = itertools.cycle(bodies)
            path = self.folder / "poisoned.jsonl"
            with self.part().open("rb") as clean, path.open("wb") as out:
                for number, line in enumerate(clean):
                    out.write(next(venom) + b"\n" if number % 100 == 50 else line)
            self._made["poisoned"] = path
        return self._made["poisoned"]

    def _write(self, name: str, events: Iterable[dict[str, object]]) -> pathlib.Path:
        path = self.folder / f"{name}.jsonl"
        write_jsonl(path, events)
        return path


def _fits_a_line(body: bytes) -> bool:
    return bool(body.strip()) and len(body) <= _SMALL and b"\n" not in body
