# SPDX-License-Identifier: Apache-2.0
"""A store whose journal an outlet publishes on JetStream, and all three readers of that log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.client.published_log import FollowedLog
from tests.functional.log.jetstream_streams import PARTITION, log_of, make_outlet
from tests.functional.log.memory_log import Cloud, Process, configured, cursor_of, instance
from tests.functional.sources.jetstream import Dcm
from tests.functional.sources.test_region_log import Followed, following
from tests.functional.sources.test_region_log import configured as configured_source
from tests.waiting import deadline, wait_until
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.federation.source.listing import list_ids
from watcher_sync.extensions.log import cursors
from watcher_sync.storage.writing.store import Store


class Region:
    """Instances, the outlet that publishes them, and the streams.

    :param options: of the outlet.
    """

    def __init__(self, store: Store, dcm: Dcm, url: str, stream: str, folder: Path, **options: Any) -> None:
        self.url = url
        self.stream = stream
        self.model = f"{stream}-model"
        self.dcm = dcm
        self._store = store
        self._cloud = Cloud(store)
        self._folder = folder
        self._options = options
        self._process: Process | None = None

    # The publisher

    def start(self) -> None:
        """Publish, with a process of its own."""
        self._process = Process(self._store)
        self._process.run(make_outlet([self.url], self.stream, **self._options), configured(partition=PARTITION))

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def write(self, count: int, *, first: int = 0, size: int = 1) -> None:
        """Change so many instances, each in a commit.

        :param size: characters of a field.
        """
        for number in range(first, first + count):
            self._cloud.write(instance(number % 10, name=f"{time.monotonic_ns()}".ljust(size, "x")))

    def truth(self) -> dict[str, Any]:
        return {entity_id: document for (_, entity_id), document in self._cloud.rows().items()}

    def is_published(self) -> bool:
        """Whether the row of the outlet says that the log has everything."""
        cursor = cursor_of(self._store)
        return cursor.state == cursors.PUBLISHING and cursor.published_seq == self._cloud.cycle.model.generation

    def detail(self) -> str:
        """Why it fails; empty: it does not."""
        with contextlib.suppress(AssertionError):
            cursor = cursor_of(self._store)
            return cursor.detail if cursor.state == cursors.FAILED else ""
        return ""

    # The streams

    def delete(self, *streams: str) -> None:
        for stream in streams:
            self.dcm.delete_stream(stream)

    def purge(self, stream: str) -> None:
        self.dcm.do(self.dcm.js.purge_stream(stream))

    def info(self, stream: str) -> Any:
        return self.dcm.do(self.dcm.js.stream_info(stream))

    def is_mirrored(self) -> bool:
        return bool(self.info(self.stream).state.last_seq == self.info(self.model).state.last_seq)

    # The readers

    @contextlib.contextmanager
    def readers(self) -> Iterator[Readers]:
        """A reader of each change, and one of states."""
        with FollowedLog(self) as changes, following(self.source()) as states:  # type: ignore[arg-type]
            yield Readers(self, changes, states)

    def source(self) -> Any:
        """The configuration of a source that follows the log."""
        return configured_source(self._folder, self)  # type: ignore[arg-type]

    def listed(self, seconds: float = 10) -> set[str]:
        """The ids of a listing.

        :raises SourceError: it is not complete.
        """
        return list_ids(self.source(), "north", ["instance"], time.monotonic() + deadline(seconds)).ids["instance"]


class Readers:
    """A program that reads each change, and a source that follows the states."""

    def __init__(self, region: Region, changes: FollowedLog, states: Followed) -> None:
        self.region = region
        self.changes = changes
        self.states = states

    def have_the_truth(self) -> bool:
        truth = self.region.truth()
        return dict(self.changes.model) == truth == self.states.fields() and bool(
            self.changes.snapshot_sizes and self.states.listed
        )

    def wait(self) -> None:
        """Wait until both have the truth."""
        try:
            wait_until(lambda: self.changes.failure or self.have_the_truth(), seconds=40)
        except AssertionError:
            pytest.fail(self._difference())
        assert not self.changes.failure

    def _difference(self) -> str:
        truth, status = self.region.truth(), self.states.source.status()
        stale = {
            name: sum(model.get(key) != value for key, value in truth.items()) + len(model.keys() - truth.keys())
            for name, model in (("changes", dict(self.changes.model)), ("states", self.states.fields()))
        }
        return f"of {len(truth)} entities wrong: {stale}; outlet: {self.region.detail()!r}; source: {status}"


def wait_for_all(region: Region, running: Readers) -> None:
    """Wait until readers that run, readers that begin now, and a listing have the truth."""
    wait_until(region.is_published, seconds=40, what=f"an outlet that publishes, and not {region.detail()!r},")
    running.wait()
    with region.readers() as fresh:
        fresh.wait()
    assert region.listed() == set(region.truth())


def refusal_of(call: Callable[[], object]) -> str:
    """The error of a listing; empty: it was complete."""
    try:
        call()
    except SourceError as exc:
        return str(exc)
    return ""


@contextlib.contextmanager
def region_on(store: Store, dcm: Dcm, url: str, folder: Path, **options: Any) -> Iterator[Region]:
    """A region with ten instances, whose outlet publishes. Its streams are deleted at the end."""
    with log_of(dcm) as log:
        region = Region(store, dcm, url, log.name, folder, **options)
        region.write(10)
        region.start()
        try:
            wait_until(lambda: _publishes(region))
            yield region
        finally:
            region.stop()


def _publishes(region: Region) -> bool:
    with contextlib.suppress(AssertionError):
        return region.is_published()
    return False
