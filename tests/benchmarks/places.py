# SPDX-License-Identifier: Apache-2.0
"""Where a benchmark runs: recordings that are made once, and fresh databases with the configuration for each.

The recordings are what a simulated cloud publishes, written to files once a run. A database is an SQLite
file of one measurement's own, made with the real migrations, opened as every process of ours opens it.
One thread.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import random
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
import sqlalchemy as sa
from oslo_config import cfg

from tests.services.ensure import url_of
from watcher_sync.assembly import process
from watcher_sync.assembly.store import open_store
from watcher_sync.commit.replay import replay
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.sources.replay import read_ahead, read_events
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.recording import write_jsonl
from watcher_sync.testing.poison import poison

_SMALL = 65_536

Good = TypeVar("Good")
Bad = TypeVar("Bad")


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
    """Good events of the replay with and without poison."""
    many: int
    """Instances of the large snapshot."""
    growth: tuple[int, ...]
    """Servers of each cloud of the growth; the first is the reference."""


FULL = Scale(hosts=1000, instances=20_000, changes=5_000, pairs=3, messages=10_000, naive=2_000, lone=100,
             slice=15_000, many=100_000, growth=(20_000, 200_000, 1_000_000))  # fmt: skip
QUICK = Scale(hosts=100, instances=2_000, changes=500, pairs=1, messages=4_000, naive=300, lone=20,
               slice=4_000, many=100_000, growth=(2_000, 20_000))  # fmt: skip


class Place:
    """One measurement's database and configuration.

    :param connection: the database's URL; None for a new SQLite file, :attr:`database`.
    """

    def __init__(self, folder: pathlib.Path, *, connection: str | None = None, **sections: dict[str, object]) -> None:
        folder.mkdir()
        self.database = folder / "watcher-sync.sqlite"
        connection = connection or f"sqlite:///{self.database}"
        lines = ["[DEFAULT]", f"state_path = {folder}", "[database]", f"connection = {connection}"]
        for section, options in sections.items():
            lines += [f"[{section}]", *(f"{name} = {value}" for name, value in options.items())]
        self.file = file = folder / "watcher-sync.conf"
        file.write_text("\n".join(lines) + "\n")
        self.conf: cfg.ConfigOpts = process.make_conf(
            ["--config-file", str(file)], prog="benchmark", log_to_stderr_only_warnings=True
        )
        self.store: Store = open_store(self.conf, checked=False)
        schema.upgrade(self.store.database, self.store.tables)
        self.dispatcher: Dispatcher = load_handlers(self.conf)

    def replay(self, path: pathlib.Path) -> tuple[int, float]:
        """Replay a recording as ``watcher-sync-manage replay`` does; (events, events a second)."""
        began = time.perf_counter()
        events = read_ahead(lambda: read_events([str(path)], "nova"))
        result = replay(self.store, self.dispatcher, events, batch_size=self.conf.engine.batch_size)
        return int(result["read"]), result["read"] / (time.perf_counter() - began)


class Bench:
    """What all benchmarks of one run share."""

    def __init__(self, folder: pathlib.Path, scale: Scale) -> None:
        self.folder = folder
        self.scale = scale
        self._made: dict[str, pathlib.Path] = {}
        self._numbers = itertools.count()

    def place(self, *, connection: str | None = None, **sections: dict[str, object]) -> Place:
        """A fresh one.

        :param connection: as :class:`Place` takes it.
        :param sections: configuration: group -> option -> value.
        """
        return Place(self.folder / f"place-{next(self._numbers)}", connection=connection, **sections)

    @contextlib.contextmanager
    def database(self, service: str) -> Iterator[str]:
        """The URL of an empty database, which is gone afterwards.

        :param service: ``sqlite``, ``postgresql`` or ``mariadb``.
        """
        if service == "sqlite":
            yield f"sqlite:///{self.folder / f'database-{next(self._numbers)}.sqlite'}"
            return
        server = sa.make_url(url_of(service))
        name = f"watcher_sync_bench_{secrets.token_hex(6)}"
        engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        try:
            yield server.set(database=name).render_as_string(hide_password=False)
        finally:
            with engine.connect() as connection:
                force = " WITH (FORCE)" if server.get_backend_name() == "postgresql" else ""
                connection.exec_driver_sql(f"DROP DATABASE {name}{force}")

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
        """The same as :meth:`part`, and among its events one in a hundred that belongs into quarantine."""
        if "poisoned" not in self._made:
            bodies = [item.raw for item in poison(random.Random(3)) if item.quarantine and _fits_a_line(item.raw)]
            path = self.folder / "poisoned.jsonl"
            with self.part().open("rb") as clean, path.open("wb") as out:
                out.writelines(among(clean, [body + b"\n" for body in bodies]))
            self._made["poisoned"] = path
        return self._made["poisoned"]

    def _write(self, name: str, events: Iterable[dict[str, object]]) -> pathlib.Path:
        path = self.folder / f"{name}.jsonl"
        write_jsonl(path, events)
        return path


def among(good: Iterable[Good], bad: Iterable[Bad]) -> Iterator[Good | Bad]:
    """All that is good, in its order, and one in a hundred of what comes is bad; never the first, never the last.

    :param bad: in turn, and again from the first after the last.
    """
    venom = itertools.cycle(bad)
    held: list[Good] = []
    for item in good:
        held.append(item)
        if len(held) == 99:
            yield from held[:49]
            yield next(venom)
            yield from held[49:]
            held.clear()
    yield from held


def _fits_a_line(body: bytes) -> bool:
    return bool(body.strip()) and len(body) <= _SMALL and b"\n" not in body
