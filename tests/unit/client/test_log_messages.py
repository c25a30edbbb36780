# SPDX-License-Identifier: Apache-2.0
"""What is no change in a log is an error that names the message."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from watcher_sync.client.log.entries import LogReading
from watcher_sync.client.log.messages import UnknownMessage, decoded
from watcher_sync.client.log.reader import LogReader
from watcher_sync.client.log.received import LogMessage
from watcher_sync.extensions.log import base, formats

CHANGE = base.LogChange(
    partition="p",
    epoch="e",
    seq=7,
    change=base.UPDATED,
    kind="instance",
    id="i",
    time=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    delta={"n": (1, 2)},
    before={"id": "i", "n": 1, "project_id": "q"},
    after={"id": "i", "n": 2, "project_id": "q"},
    project_id="q",
)


@pytest.mark.parametrize("format_name", [formats.CLOUDEVENTS, formats.DEBEZIUM])
def test_both_formats_say_the_same(format_name: str) -> None:
    found = decoded(formats.encoder_of(format_name)(CHANGE), 1)
    assert (found.partition, found.epoch, found.seq, found.change) == ("p", "e", 7, "updated")
    assert (found.kind, found.id, found.project_id, found.time) == ("instance", "i", "q", CHANGE.time)
    decoded_fields = [msgspec.json.decode(each) for each in (found.old, found.new, found.entity)]
    assert decoded_fields == [{"n": 1}, {"n": 2}, CHANGE.after]
    assert found.exists


@pytest.mark.parametrize(
    "message",
    [
        b"nonsense",
        b"[]",
        b"{}",
        b'{"data": {"partition": "p", "epoch": "e", "seq": "x", "change": "created"}}',
        b'{"data": {"partition": "p", "epoch": "e", "seq": 1, "change": "created", "kind": "k", "entity": 7}}',
        b'{"op": "c", "source": {"name": "p", "epoch": "e", "seq": 1}, "after": 7}',
        b'{"op": "m", "source": {"name": "p", "epoch": "e", "seq": 1}}',
    ],
)
def test_what_is_no_change_is_an_error(message: bytes) -> None:
    with pytest.raises(UnknownMessage, match="the message 12 of the stream is no change"):
        decoded(message, 12)


@pytest.mark.parametrize("member", ["old", "new", "entity", "versions", "cause", "actor"])
def test_a_change_with_a_part_that_is_no_object_is_an_error_of_the_same_kind(member: str) -> None:
    change = {"partition": "p", "epoch": "e", "seq": 1, "change": "updated", "kind": "k", "id": "i"}
    message = {"data": {**change, "entity": {"id": "i"}, member: [7]}}
    with pytest.raises(UnknownMessage, match="the message 12 of the stream is no change"):
        LogReading().entry(LogMessage(12, msgspec.json.encode(message), of_model=False))


@pytest.mark.parametrize("servers", [[], "nats://127.0.0.1:4222"])
def test_a_reader_needs_a_list_of_servers(servers: list[str] | str) -> None:
    with pytest.raises(ValueError, match="servers: a list of at least one URL is needed"):
        LogReader(servers)


@pytest.mark.parametrize(
    "position",
    [{"p": ["e", 1]}, {"p": None}, {"p": ["e", 1, 0]}, {"p": ["e", "1", "2"]}, ["p"], "p"],
    ids=msgspec.json.encode,
)
def test_a_position_that_is_not_that_of_an_entry_is_refused(position: Any) -> None:
    with pytest.raises(ValueError, match=r"^position: it is not that of an entry: "):
        next(LogReader(["nats://127.0.0.1:1"]).read(position, timeout=0))


@pytest.mark.parametrize("option", ["usr", "allow_reconnect"])
def test_an_option_that_the_library_does_not_take_is_named(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        next(LogReader(["nats://127.0.0.1:1"], **{option: True}).read())
