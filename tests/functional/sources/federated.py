# SPDX-License-Identifier: Apache-2.0
"""Installations that follow each other: each has a database, and an engine, an API and an outlet as processes."""

from __future__ import annotations

import bisect
import itertools
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.executables import BIN
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.federation.handler.naming import led
from watcher_sync.extensions.log.cursors import PUBLISHING, read_outlet
from watcher_sync.storage.groups.source_status import SourceRow, list_sources
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.storage.writing.store import Store

KINDS: Final = ("aggregate", "compute_node", "instance")
_REFERENCES: Final = ("host", "source_host", "hosts")


class Member:
    """One installation of a federation."""

    parts: ClassVar[Mapping[str, str]] = {
        "engine": "watcher-sync-engine", "api": "watcher-sync-api", "outlet": "watcher-sync-outlet",
    }  # fmt: skip
    """Its processes: name -> executable."""

    def __init__(self, name: str, site: Installation, **options: object) -> None:
        """:param options: of its parts, as ``group__option``."""
        self.name = name
        self.site = site
        self.api_port, self.stream_port = free_port(), free_port()
        self.processes: dict[str, EngineProcess] = {}
        self._sources: list[str] = []
        self._numbers = itertools.count(1)
        site.options |= {
            "api.auth_strategy": "noauth",
            "api.port": self.api_port,
            "outlet_watch.auth_strategy": "noauth",
            "outlet_watch.port": self.stream_port,
            "monitoring.status_interval": 0.5,
            **{option.replace("__", "."): value for option, value in options.items()},
        }
        site.upgrade()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def _config(self) -> Path:
        return self.site.folder / "member.conf"

    def _command(self, part: str, config: Path) -> list[str]:
        return self.site.command(self.parts[part], config)

    def _followed_with(self) -> dict[str, object]:
        """The options of a source that follows this member."""
        return {
            "driver": "federation", "endpoint": self.url,
            "address": f"127.0.0.1:{self.stream_port}", "backoff_max": 0.5,
        }  # fmt: skip

    def follow(self, source: str, other: Member, **options: object) -> None:
        """Add a source that follows another member; before the start."""
        values = other._followed_with() | options
        self.add_source(source, {f"source_{source}.{option}": value for option, value in values.items()})

    def add_source(self, source: str, options: Mapping[str, object]) -> None:
        """Add a source; before the start."""
        self._sources.append(source)
        self.site.options |= {**options, "engine.enabled_sources": ", ".join(self._sources)}

    def start(self, *parts: str) -> None:
        """Start these processes, or all of them; returns at once."""
        config = self._config
        self.site.write_config(config, {})
        for part in parts or self.parts:
            log = self.site.folder / f"{part}-{next(self._numbers)}.log"
            self.processes[part] = EngineProcess(self._command(part, config), log, self.site.environment)
            self.site.engines.append(self.processes[part])

    def kill(self, *parts: str) -> None:
        """SIGKILL to these processes, or to all of them."""
        for part in parts or list(self.processes):
            self.processes.pop(part).kill()

    def answers(self) -> bool:
        """Whether the API answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/v1", timeout=deadline(60)) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait_until_serving(self) -> None:
        wait_until(self.answers, 60, f"the API of {self.name}")

    def source_rows(self) -> dict[str, SourceRow]:
        """Source -> its state in the database."""
        return {row.source: row for row in list_sources(self.site.store.database)}


class ServedMember(Member):
    """A member whose API is a gunicorn with several workers, of which single ones can be killed."""

    WORKERS: Final = 2

    def __init__(self, name: str, site: Installation, **options: object) -> None:
        super().__init__(name, site, **{"api__write_rate": 0, "api__stream_rate": 0, **options})
        site.environment["OS_WATCHER_SYNC_CONFIG_FILES"] = str(self._config)

    def _command(self, part: str, config: Path) -> list[str]:
        if part != "api":
            return super()._command(part, config)
        return [
            str(BIN / "gunicorn"), "--bind", f"127.0.0.1:{self.api_port}", "--workers", str(self.WORKERS),
            "--threads", "8", "--timeout", "120", "watcher_sync.wsgi.api:application",
        ]  # fmt: skip

    def kill_worker(self, rng: random.Random) -> None:
        """SIGKILL to one worker of the API; returns once the master has replaced it."""
        api = self.processes["api"]
        victim = rng.choice(wait_until(lambda: api.workers, what="a worker"))
        os.kill(victim, signal.SIGKILL)
        wait_until(
            lambda: victim not in api.workers and len(api.workers) == self.WORKERS, 60, "another worker"
        )  # fmt: skip


class Partition(Member):
    """A member that publishes its journal on JetStream, in streams of its name. It serves nothing itself."""

    parts: ClassVar[Mapping[str, str]] = {"engine": "watcher-sync-engine", "outlet": "watcher-sync-outlet"}

    def __init__(
        self, name: str, site: Installation, servers: Sequence[str], *, replicas: int = 1, **options: object
    ) -> None:
        """:param servers: the URLs of the NATS servers.

        :param replicas: servers that store each message.
        """
        self._servers = ", ".join(servers)
        log = {
            "driver": "nats_jetstream", "servers": self._servers, "stream": name, "subject_prefix": name,
            "partition": name, "stream_mode": "create", "replicas": replicas,
        }  # fmt: skip
        fixed = {"outlets__enabled": "bus", "outlet_watch__enabled": "false", "outlet_webhook__enabled": "false"}
        outlet = {f"outlet_bus__{option}": value for option, value in log.items()}
        super().__init__(name, site, **{**fixed, **outlet, **options})

    def _followed_with(self) -> dict[str, object]:
        return {"driver": "federation_log", "servers": self._servers, "stream": self.name}

    def published(self) -> tuple[str, int]:
        """The epoch and the seq of the last change that the log has, as the outlet has last written it."""
        cursor = read_outlet(self.site.store.database, "bus")
        return (cursor.epoch, cursor.published_seq) if cursor is not None and cursor.state == PUBLISHING else ("", -1)


class Sampler:
    """Samples up to which sequence of each region a global database has the changes.

    A lag is from the time of a change in the journal of its region to the end of the first sample that has it. So it
    is never too short, and up to a sample's interval too long.
    """

    def __init__(self, whole: Store, interval: float = 0.01) -> None:
        self._whole = whole
        self._interval = interval
        self._samples: dict[str, list[tuple[int, float]]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stopping.set()
        self._thread.join(deadline(10))

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            cursors, now = self._whole.cursors(), time.time()
            for site, cursor in cursors.items():
                known, sequence = self._samples.setdefault(site, []), sequence_of(cursor)
                if not known or known[-1][0] < sequence:
                    known.append((sequence, now))

    def has(self, site: str, row: JournalRow) -> bool:
        """Whether a change of a region is visible."""
        samples = self._samples.get(site)
        return bool(samples) and samples[-1][0] >= row.seq

    def lags(self, site: str, rows: Iterable[JournalRow]) -> list[float]:
        """The seconds of each of these changes of a region, in order.

        :raises IndexError: a change is not visible.
        """
        samples = self._samples[site]
        return [
            samples[bisect.bisect_left(samples, (row.seq, 0.0))][1] - row.time.timestamp()
            for row in rows
        ]  # fmt: skip


def sequence_of(cursor: str) -> int:
    """The sequence in the position of a source that follows a region; 0: it has none."""
    sequence = cursor.partition("@")[0]
    return int(sequence) if sequence else 0


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def dumped(store: Store, kind: str, site: str | None = None, *, versions: bool = True) -> list[dict[str, Any]]:
    """The entities of a kind, without signs of life.

    :param site: prefix ids and references, as an installation does that follows this one; None: they stay.
    :param versions: with them, too. One that follows a log has others.
    """
    snapshot = store.load().snapshot()
    found = []
    for document in snapshot.dump(kind):
        entity = snapshot.get(kind, document["id"])
        assert entity is not None
        shown = document if site is None else _prefixed(document, site)
        led_versions = [led(v, shown["id"], 0) if v and site is not None else v for v in entity.versions]
        found.append({**shown, "last_heard": None, "versions": led_versions if versions else None})
    return found


def has_union(
    whole: Store, parts: Mapping[str, Store], kinds: Collection[str] = KINDS, *, versions: bool = True
) -> bool:
    """Whether a model has all entities of those that it follows, in the same versions, and no others.

    :param parts: site -> its database.
    :param versions: whether these count.
    """
    for kind in kinds:
        union = [document for site, part in parts.items() for document in dumped(part, kind, site, versions=versions)]
        if sorted(union, key=lambda each: each["id"]) != dumped(whole, kind, versions=versions):
            return False
    return True


def is_union(whole: Member, parts: Mapping[str, Member], *, versions: bool = True) -> bool:
    """As :func:`has_union`."""
    stores = {site: part.site.store for site, part in parts.items()}
    return has_union(whole.site.store, stores, versions=versions)


def unreal_deletions(whole: Member, parts: Mapping[str, Member]) -> list[tuple[str, str]]:
    """What a member deleted, and the one that it follows never did.

    An entity that others refer to is not deleted but ``gone``, in the one or in the other.
    """
    real = {
        (row.kind, f"{site}:{row.entity_id}")
        for site, part in parts.items()
        for row in part.site.rows()
        if row.change == "deleted" or row.delta.get("gone", (None, None))[1]
    }
    found = [(row.kind, row.entity_id) for row in whole.site.rows() if row.change == "deleted"]
    return [key for key in found if key not in real]


def _prefixed(document: dict[str, Any], site: str) -> dict[str, Any]:
    found = {**document, "id": f"{site}:{document['id']}"}
    for name in _REFERENCES:
        value = found.get(name)
        if isinstance(value, list):
            found[name] = [f"{site}:{each}" for each in value]
        elif value is not None:
            found[name] = f"{site}:{value}"
    return found
