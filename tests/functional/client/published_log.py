# SPDX-License-Identifier: Apache-2.0
"""A publisher of the log's layout on JetStream, and a reader that holds what it was given against the truth."""

from __future__ import annotations

import contextlib
import datetime
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

from nats.errors import Error as NatsError
from nats.js.api import StreamConfig, StreamSource
from nats.js.errors import NotFoundError

from tests.functional.sources.jetstream import Dcm, dcm_of
from tests.waiting import deadline, wait_until
from watcher_sync.client.log import LogEntry, LogReader
from watcher_sync.extensions.log import base, formats

PARTITION = "p1"
TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


class PublishedLog:
    """The streams of one partition, and what exists in it."""

    def __init__(self, dcm: Dcm, url: str, *, format_name: str = formats.CLOUDEVENTS) -> None:
        self.url = url
        self.stream = f"watcher-sync-test-{secrets.token_hex(6)}"
        self.model = f"{self.stream}-model"
        self.epoch = "epoch-1"
        self.seq = 0
        self.truth: dict[str, dict[str, Any]] = {}
        """Id -> the entity as it is."""
        self.written: dict[str, int] = {}
        """Id -> the seq of its last change."""
        self._dcm = dcm
        self._encode = formats.encoder_of(format_name)

    def create(self, **limits: Any) -> None:
        """Make both streams."""
        self._dcm.make_stream(self.stream, f"{self.stream}.{PARTITION}.>", **limits)
        mirror = StreamConfig(name=self.model, mirror=StreamSource(name=self.stream), max_msgs_per_subject=1)
        self._dcm.do(self._dcm.js.add_stream(mirror))

    def delete(self) -> None:
        """Delete both streams, if they are there."""
        for name in (self.model, self.stream):
            with contextlib.suppress(NotFoundError):
                self._dcm.delete_stream(name)

    def info(self, stream: str) -> Any:
        """The state of a stream."""
        return self._dcm.do(self._dcm.js.stream_info(stream)).state

    def mirrored(self) -> bool:
        """Whether the model has all that the stream has."""
        return bool(self.info(self.stream).last_seq == self.info(self.model).last_seq)

    def delivered(self) -> bool:
        """Whether all readers of the changes have got everything."""
        consumers = self._dcm.do(self._dcm.js.consumers_info(self.stream))
        return not any(each.num_pending for each in consumers)

    def purge(self, *, mirrored: bool = True) -> None:
        """Discard all changes. The model stays.

        :param mirrored: whether the model has them first.
        """
        wait_until(lambda: self.mirrored() or not mirrored)
        self._dcm.do(self._dcm.js.purge_stream(self.stream))

    def expire_last(self) -> None:
        """The last message leaves both streams, as a deletion does whose time to live is over."""
        wait_until(self.mirrored)
        for name in (self.stream, self.model):
            self._dcm.do(self._dcm.js.delete_msg(name, self.info(name).last_seq))

    def delay_model(self) -> None:
        """The model has the markers of the snapshots alone, and gets no more before :meth:`delete`."""
        self._dcm.delete_stream(self.model)
        source = StreamSource(name=self.stream, filter_subject=f"{self.stream}.{PARTITION}._snapshot.>")
        self._dcm.do(self._dcm.js.add_stream(StreamConfig(name=self.model, mirror=source, max_msgs_per_subject=1)))
        wait_until(lambda: self.info(self.model).messages == 2)

    def stop_mirroring(self) -> None:
        """Remove the stream of the model, so that a reader gets nothing more of it."""
        self._dcm.delete_stream(f"{self.stream}-model")

    def snapshot(self, *, until: str = base.SNAPSHOT_END) -> None:
        """Publish the truth. It ends after its begin, its entities or its end."""
        self._publish(base.SNAPSHOT_BEGIN)
        if until == base.SNAPSHOT_BEGIN:
            return
        for entity in self.truth.values():
            self._publish(base.SNAPSHOT, after=entity)
        if until == base.SNAPSHOT_END:
            self._publish(base.SNAPSHOT_END)

    def end_snapshot(self) -> None:
        self._publish(base.SNAPSHOT_END)

    def write(self, entity_id: str, **fields: Any) -> None:
        """Create or update an entity."""
        before = self.truth.get(entity_id)
        after = {"id": entity_id, **(before or {}), **fields}
        self.truth[entity_id] = after
        self.seq += 1
        self.written[entity_id] = self.seq
        self._publish(base.CREATED if before is None else base.UPDATED, before=before, after=after)

    def mark(self, entity_id: str, **fields: Any) -> None:
        """Create or update an entity that is too large for the log."""
        self.seq += 1
        self.truth[entity_id] = {"id": entity_id, **self.truth.get(entity_id, {}), **fields}
        marker = {"id": entity_id}
        self._publish(base.UPDATED, before=marker, after=marker, omitted=("old", "new", "entity"))

    def remove(self, entity_id: str) -> None:
        """Delete an entity."""
        self.seq += 1
        self._publish(base.DELETED, before=self.truth.pop(entity_id))

    def publish_foreign(self, body: bytes, entity_id: str = "foreign", *, marker: str = "") -> None:
        """Publish a message that is no change, as that of an entity or as a marker of a snapshot."""
        subject = f"{self.stream}.{PARTITION}." + (f"_snapshot.{marker}" if marker else f"instance.{entity_id}")
        self._dcm.do(self._dcm.js.publish(subject, body, timeout=deadline(10)))

    def _publish(
        self,
        change: str,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        omitted: tuple[str, ...] = (),
    ) -> None:
        entity = after or before
        names = sorted({*(before or {}), *(after or {})} - {"id"})
        pairs = {name: ((before or {}).get(name), (after or {}).get(name)) for name in names}
        document = base.LogChange(
            partition=PARTITION,
            epoch=self.epoch,
            seq=self.seq,
            change=change,
            kind="instance" if entity else "",
            id=entity["id"] if entity else "",
            time=TIME,
            previous_seq=self.written.get(entity["id"]) if entity and change == base.SNAPSHOT else None,
            delta={} if change == base.SNAPSHOT else {n: p for n, p in pairs.items() if p[0] != p[1]},
            before=before,
            after=after,
            omitted=omitted,
        )
        token = f"instance.{entity['id']}" if entity else f"_snapshot.{change.removeprefix('snapshot_')}"
        headers = {
            "Watcher-Sync-Position": f"{self.epoch}:{self.seq}",
            "Watcher-Sync-Change": change,
            "Nats-Msg-Id": f"{self.epoch}:{self.seq}:{change}:{document.id}:{secrets.token_hex(4)}",
        }
        body = self._encode(document)
        wait_until(lambda: self._published(f"{self.stream}.{PARTITION}.{token}", body, headers))

    def _published(self, subject: str, body: bytes, headers: dict[str, str]) -> bool:
        """Whether the server has stored a message. A killed one may have, without an answer: it refuses the second."""
        try:
            self._dcm.do(self._dcm.js.publish(subject, body, timeout=deadline(1), headers=headers))
        except NatsError:
            return False
        return True

    def fill(self, count: int) -> None:
        """Publish entities without waiting for each: ``e-0``, ``e-1``, ..., each with the field ``n`` = 0."""
        for number in range(count):
            self.write(f"e-{number}", n=0)


@contextlib.contextmanager
def published_log(url: str, **options: Any) -> Iterator[PublishedLog]:
    """A log with names of its own, on which nothing is published yet. Its streams are deleted at the end."""
    with dcm_of(url) as dcm:
        log = PublishedLog(dcm, url, **options)
        log.create()
        try:
            yield log
        finally:
            log.delete()


class FollowedLog:
    """A program that follows a log in a thread, and checks each entry against the one before."""

    def __init__(self, log: PublishedLog, position: Any = None, **options: Any) -> None:
        """:param options: of the reader."""
        self.entries: list[LogEntry] = []
        self.model: dict[str, Any] = {}
        self.snapshot_sizes: list[int] = []
        """How many entities each snapshot had at its end."""
        self.position: Any = position
        self.failure: BaseException | None = None
        self._seen: set[str] | None = None
        self._reader = LogReader([log.url], log.stream, **options)
        self._thread = threading.Thread(target=self._run, args=(position,), daemon=True)

    def __enter__(self) -> FollowedLog:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._reader.close()
        self._thread.join(deadline(30))
        assert not self._thread.is_alive(), "the iteration does not end"
        if self.failure is not None:
            raise self.failure

    def _run(self, position: Any) -> None:
        try:
            for entry in self._reader.read(position):
                self.apply(entry)
        except Exception as exc:  # noqa: BLE001 - the test raises it
            self.failure = exc

    def apply(self, entry: LogEntry) -> None:
        """Do what every consumer does: what is not in a snapshot does not exist any more."""
        if entry.change == base.SNAPSHOT_BEGIN:
            self._seen = set()
        elif entry.change == base.SNAPSHOT_END:
            assert self._seen is not None, "a snapshot ends that has not begun"
            self.model = {key: value for key, value in self.model.items() if key in self._seen}
            self._seen = None
            self.snapshot_sizes.append(len(self.model))
        elif entry.entity is None:
            self.model.pop(entry.id, None)
        else:
            self.model[entry.id] = entry.entity
            if self._seen is not None:
                self._seen.add(entry.id)
        self.position = entry.position
        self.entries.append(entry)

    def changes(self) -> list[int]:
        """The seqs of the changes, without those of snapshots."""
        return [entry.seq for entry in self.entries if not entry.change.startswith("snapshot")]

    def reasons(self) -> list[str]:
        """Why each snapshot began."""
        return [entry.reason for entry in self.entries if entry.change == base.SNAPSHOT_BEGIN]

    def wait(self, condition: Callable[[], Any], what: str = "it") -> None:
        """Wait until a condition holds, or the reader has failed."""
        wait_until(lambda: self.failure is not None or condition(), what=what)
        if self.failure is not None:
            raise self.failure

    def wait_for(self, log: PublishedLog) -> None:
        """Wait until the last entry is the last one that was published, outside a snapshot."""
        self.wait(lambda: self.position and self.position[PARTITION][:2] == (log.epoch, log.seq), f"seq {log.seq}")
        assert self.model == log.truth


@contextlib.contextmanager
def writing(log: PublishedLog, count: int, *, deletes: bool = True) -> Iterator[threading.Event]:
    """Another thread writes and deletes entities all the time; it ends with the context.

    :param count: how many entities it changes in turn.
    :param deletes: whether it deletes some.
    """
    stopping, started = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            entity_id = f"e-{number * 7 % count}"
            if deletes and number % 5 == 0 and entity_id in log.truth:
                log.remove(entity_id)
            else:
                log.write(entity_id, n=number)
            started.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    started.wait()
    try:
        yield stopping
    finally:
        stopping.set()
        thread.join()
