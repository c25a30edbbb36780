# SPDX-License-Identifier: Apache-2.0
"""An outlet of JetStream with streams of its own, and a client that reads what they have."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from nats.js.errors import NotFoundError
from oslo_config import cfg

from tests.functional.sources.jetstream import Dcm
from tests.waiting import deadline
from watcher_sync.conf import opts
from watcher_sync.extensions.log.base import SNAPSHOT, SNAPSHOT_BEGIN, SNAPSHOT_END, UPDATED, LogChange, LogPosition
from watcher_sync.extensions.log.nats_jetstream.outlet import NatsJetStreamOutlet
from watcher_sync.extensions.log.options import OUTLETS

PARTITION = "north"
_TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def change(seq: int, id: str = "a", what: str = UPDATED, *, ends_commit: bool = True, size: int = 0) -> LogChange:
    """A change of an instance.

    :param size: bytes that the entity has beside its fields.
    """
    return LogChange(
        partition=PARTITION,
        epoch="e",
        seq=seq,
        change=what,
        kind="instance",
        id=id,
        time=_TIME,
        after={"id": id, "seq": seq, "filler": "x" * size},
        ends_commit=ends_commit,
    )


def at(seq: int) -> LogPosition:
    """Of a log whose last change has a seq."""
    return LogPosition("e", seq, _TIME)


def snapshot(seq: int, *ids: str) -> list[LogChange]:
    """A whole snapshot of instances."""
    markers = [
        LogChange(partition=PARTITION, epoch="e", seq=seq, change=what, time=_TIME)
        for what in (SNAPSHOT_BEGIN, SNAPSHOT_END)
    ]
    return [markers[0], *(change(seq, id, SNAPSHOT) for id in ids), markers[1]]


class LogRecord(msgspec.Struct, frozen=True):
    """A message of a stream."""

    sequence: int
    subject: str
    headers: dict[str, str]
    data: bytes

    @property
    def position(self) -> int:
        """The seq of its change."""
        return int(self.headers["Watcher-Sync-Position"].rpartition(":")[2])


class LogReader:
    """Reads the streams of one outlet.

    :param name: of the stream of changes, and the prefix of its subjects.
    """

    def __init__(self, client: Dcm, name: str) -> None:
        self.client = client
        self.name = name
        self.model_name = f"{name}-model"

    def read(self, stream: str) -> list[LogRecord]:
        """All messages that a stream has, in its order, one request each: the server may discard some meanwhile."""
        return self.client.do(self._read(stream), deadline(60))

    async def _read(self, stream: str) -> list[LogRecord]:
        records: list[LogRecord] = []
        sequence = 0
        with suppress(NotFoundError):
            while True:
                message = await self.client.js.get_msg(
                    stream, seq=sequence + 1, subject=f"{self.name}.{PARTITION}.>", next=True
                )
                assert message.seq is not None
                sequence = message.seq
                headers = dict(message.headers or {})
                records.append(LogRecord(sequence, message.subject or "", headers, message.data or b""))
        return records

    def changes(self) -> list[LogRecord]:
        return self.read(self.name)

    def model(self) -> dict[str, LogRecord]:
        """Subject without its prefix -> last message."""
        prefix = f"{self.name}.{PARTITION}."
        return {record.subject.removeprefix(prefix): record for record in self.read(self.model_name)}

    def state(self, stream: str = "") -> Any:
        return self.client.do(self.client.js.stream_info(stream or self.name)).state

    def config(self, stream: str = "") -> Any:
        return self.client.do(self.client.js.stream_info(stream or self.name)).config

    def delete(self) -> None:
        for name in (self.model_name, self.name):
            try:
                self.client.delete_stream(name)
            except NotFoundError:
                continue


def make_outlet(servers: Sequence[str], stream: str, **options: Any) -> NatsJetStreamOutlet:
    """An outlet that makes its streams.

    :param stream: its name, and the prefix of its subjects.
    """
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    opts.register_instance(conf, OUTLETS, "bus", NatsJetStreamOutlet.options)
    values = {"servers": servers, "stream": stream, "subject_prefix": stream, "partition": PARTITION}
    for option, value in {**values, "stream_mode": "create", **options}.items():
        conf.set_override(option, value, group="outlet_bus")
    return NatsJetStreamOutlet("bus", conf)


@contextmanager
def log_of(client: Dcm) -> Iterator[LogReader]:
    """Streams of this test's own, which are deleted at its end."""
    reader = LogReader(client, f"log-{secrets.token_hex(4)}")
    try:
        yield reader
    finally:
        reader.delete()
