# SPDX-License-Identifier: Apache-2.0
"""Two members that write what harms a log the most, and three kinds of readers that hold a model.

A member writes the largest documents that the model accepts. It gives its entities the names that a log makes of
other ids, and deletes them again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from oslo_config import cfg

from tests.functional.engine.driving import Installation
from tests.functional.log.memory_log import Cloud
from tests.functional.storage.conftest import opened
from tests.simulated import by_facet
from tests.waiting import deadline, wait_until
from watcher_sync.client.log import LogReader
from watcher_sync.client.log.messages import SNAPSHOT_BEGIN, SNAPSHOT_END
from watcher_sync.conf import opts
from watcher_sync.exceptions import DatabaseUnavailable, HistoryChanged
from watcher_sync.extensions.federation.source.log_options import LOG_OPTIONS, LogSettings
from watcher_sync.extensions.federation.source.region_log import RegionLog, follow_log
from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.testing.kinds import builtin_kinds

KIND = "service_type_instance"
DOCUMENTS = {field.name: field.max_bytes for field in builtin_kinds()[KIND].fields.values() if field.max_bytes}
"""Fields with a document, and the bytes that each may have."""

_VICTIMS = 20
_ENTRIES = 150
"""After so many entries a resuming reader begins again at its position."""

Model = dict[tuple[str, str], Any]


def spelled(entity_id: str) -> list[str]:
    """Ids like the tokens that subjects have, or had, in place of an id, and like those of these ids."""
    found = [entity_id]
    for _ in range(2):
        found = [sign + hashlib.sha256(each.encode()).hexdigest()[:32] for each in found for sign in "_="]
    return [sign + hashlib.sha256(entity_id.encode()).hexdigest()[:32] for sign in "_="] + found


def largest(fill: str) -> dict[str, dict[str, str]]:
    """Each document with exactly the bytes that it may have."""
    made = {name: {"x": fill * (limit - len('{"x":""}'))} for name, limit in DOCUMENTS.items()}
    assert {name: len(msgspec.json.encode(each)) for name, each in made.items()} == DOCUMENTS
    return made


def is_large(entity: Any) -> bool:
    return all(len(msgspec.json.encode(entity.get(name))) == limit for name, limit in DOCUMENTS.items())


class Member:
    """Commits without a pause worth mentioning while it runs.

    :param other: the member whose entities it harms.
    """

    def __init__(self, site: Installation, name: str, other: str) -> None:
        self.commits = 0
        self._store = opened(site.url, site.kinds)
        self._cloud = Cloud(self._store)
        self._name, self._other = name, other
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            try:
                self._cloud.write(*(_at(make) for make in self._changes(number)))
                self.commits += 1
            except DatabaseUnavailable:
                pass  # a frozen process may hold a lock
            except HistoryChanged:  # as an engine does that notices a restored database
                self._cloud = Cloud(self._store)
            if self._ended.wait(0.05):
                return

    def _changes(self, number: int) -> Iterator[Callable[[str], Change]]:
        victim = number % _VICTIMS
        yield _upsert(f"{self._name}/vm {victim}", instance_name=f"n{number}")
        imposters = spelled(f"{self._other}/vm {victim}")
        if number // _VICTIMS % 2:
            yield from (_delete(each) for each in imposters)
        else:
            yield from (_upsert(each, instance_name=f"n{number}") for each in imposters)
        if number % 5 == 0:
            yield _upsert(f"{self._name}/large {number % 3}", **largest(chr(ord("a") + number // 5 % 26)))

    @property
    def is_writing(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(deadline(60))
        assert not self.is_writing
        self._store.dispose()


def _at(make: Callable[[str], Change]) -> Callable[[str], Change]:
    """With a version that is newer than those of a database that was set back."""
    return lambda _version: make(f"{time.time_ns():020d}")


def _upsert(entity_id: str, **fields: Any) -> Callable[[str], Change]:
    return lambda version: Upsert(KIND, entity_id, version, by_facet(KIND, **fields))


def _delete(entity_id: str) -> Callable[[str], Change]:
    return lambda version: Delete(KIND, entity_id, version)


@contextmanager
def writing(site: Installation) -> Iterator[list[Member]]:
    """Both members write meanwhile."""
    members = [Member(site, "north", "south"), Member(site, "south", "north")]
    try:
        yield members
    finally:
        for member in members:
            member.end()


class Reader:
    """A reader in a thread, with the model that it has made."""

    def __init__(self, urls: Sequence[str], stream: str) -> None:
        self.model: Model = {}
        self.begins = 1
        self.failure: BaseException | None = None
        self._urls, self._stream = urls, stream
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as exc:  # noqa: BLE001 - the test shows it
            self.failure = exc

    def _follow(self) -> None:
        raise NotImplementedError

    def _take(self, entry: Any) -> None:
        if entry.change == SNAPSHOT_BEGIN:
            self.model = {}
        elif entry.kind and entry.entity is None:
            self.model.pop((entry.kind, entry.id), None)
        elif entry.kind:
            self.model[entry.kind, entry.id] = entry.entity

    def wait_for(self, rows: Model) -> None:
        """:raises AssertionError: it does not end with this model."""
        wait_until(lambda: self.failure or not different(self.model, rows), 120, f"the model of {type(self).__name__}")
        assert self.failure is None
        assert not different(self.model, rows)

    def end(self) -> None:
        self._ended.set()
        self._thread.join(deadline(60))


class Beginner(Reader):
    """Reads from the begin, over one connection as long as it lasts."""

    def _follow(self) -> None:
        log = LogReader(self._urls, self._stream)
        closing = threading.Thread(target=lambda: (self._ended.wait(), log.close()), daemon=True)
        closing.start()
        for entry in log.read():
            self._take(entry)


class Resumer(Reader):
    """Ends again and again, and goes on at the position that it has stored as JSON."""

    def _follow(self) -> None:
        position = None
        while not self._ended.is_set():
            with LogReader(self._urls, self._stream) as log:
                for number, entry in enumerate(log.read(position, timeout=deadline(1))):
                    self._take(entry)
                    position = json.loads(json.dumps(entry.position))
                    is_in_snapshot = entry.change.startswith("snapshot") and entry.change != SNAPSHOT_END
                    if self._ended.is_set() or (number > _ENTRIES and position and not is_in_snapshot):
                        break
            self.begins += 1


class Stater(Reader):
    """Follows states, as another installation does."""

    def _follow(self) -> None:
        follower, log = follow_log(_settings(self._urls, self._stream), ()), RegionLog()
        try:
            while not self._ended.is_set():
                for received in follower.take(0.2) or ():
                    change = log.change_of(received)
                    if change is None:
                        continue
                    if change.change == SNAPSHOT_BEGIN:
                        self.model = {}
                    elif change.kind and change.exists:
                        self.model[change.kind, change.id] = msgspec.json.decode(change.entity)
                    elif change.kind:
                        self.model.pop((change.kind, change.id), None)
        finally:
            follower.close()


def _settings(urls: Sequence[str], stream: str) -> LogSettings:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    opts.register_source(conf, "site", LOG_OPTIONS)
    conf.set_override("servers", list(urls), group="source_site")
    conf.set_override("stream", stream, group="source_site")
    return LogSettings("site", conf.source_site)


def different(model: Model, rows: Model) -> list[tuple[str, str]]:
    """The entities that a model lacks, has too much or has otherwise. Of a large one the log may have a marker."""
    mine = dict(model)
    return [
        key
        for key in mine.keys() | rows.keys()
        if mine.get(key) != rows.get(key)
        and not (key in rows and key in mine and is_large(rows[key]) and set(mine[key]) <= {"id", "project_id"})
    ]
