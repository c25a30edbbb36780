# SPDX-License-Identifier: Apache-2.0
"""A reader of the log has the current model, and then each change once, whatever happens to the log meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from tests.functional.client.published_log import PARTITION, FollowedLog, PublishedLog, published_log, writing
from tests.services.ensure import url_of
from tests.services.servers import Server, free_port, private_nats
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.client.log import LogEntry, LogReader, UnknownMessage
from watcher_sync.client.log.current_model import CurrentModel, find_model
from watcher_sync.client.log.follower import LogFollower
from watcher_sync.client.log.received import ModelBegins, ModelEnds
from watcher_sync.client.log.servers import Closed, connector
from watcher_sync.extensions.log import base, formats

PAGE = Path(__file__).parents[3] / "doc" / "source" / "user" / "log-client.rst"
ABSENT = "nats://127.0.0.1:1"


@pytest.fixture
def log() -> Iterator[PublishedLog]:
    with published_log(url_of("nats")) as published:
        yield published


def first(log: PublishedLog, count: int, position: Any = None) -> list[LogEntry]:
    """So many entries, in a cluster of which one server is away."""
    with LogReader([ABSENT, log.url], log.stream) as reader:
        return list(itertools.islice(reader.read(position, timeout=deadline(PATIENCE_SECONDS)), count))


@pytest.mark.parametrize("format_name", [formats.CLOUDEVENTS, formats.DEBEZIUM])
def test_the_model_comes_first_and_then_each_change_with_old_and_new_values(format_name: str) -> None:
    with published_log(url_of("nats"), format_name=format_name) as log:
        log.write("gone", n=1)
        log.snapshot()
        log.write("a", n=1, name="x")
        log.remove("gone")
        wait_until(log.mirrored)
        with FollowedLog(log) as reader:
            reader.wait_for(log)
            assert [(e.change, e.id, e.reason) for e in reader.entries] == [
                ("snapshot_begin", "", "no_position"),
                ("snapshot", "a", ""),
                ("snapshot_end", "", ""),
            ]
            log.write("a", n=2)
            log.remove("a")
            reader.wait_for(log)
        updated, deleted = reader.entries[-2:]
        assert (updated.change, updated.kind, updated.id, updated.seq) == ("updated", "instance", "a", 4)
        assert (updated.partition, updated.epoch) == (PARTITION, "epoch-1")
        assert updated.time is not None
        assert updated.time.isoformat() == "2026-01-02T03:04:05+00:00"
        assert (updated.old, updated.new) == ({"n": 1}, {"n": 2})
        assert updated.entity == {"id": "a", "n": 2, "name": "x"}
        assert (deleted.change, deleted.old, deleted.entity) == ("deleted", {"n": 2, "name": "x"}, None)


@pytest.mark.parametrize("format_name", [formats.CLOUDEVENTS, formats.DEBEZIUM])
def test_an_entity_that_is_too_large_for_the_log_exists_and_the_entry_says_what_it_lacks(format_name: str) -> None:
    with published_log(url_of("nats"), format_name=format_name) as log:
        log.write("a", n=1)
        log.snapshot()
        log.mark("a", n=2)
        wait_until(log.mirrored)
        _, entity, end = first(log, 3)
        log.mark("a", n=3)
        [change] = first(log, 1, end.position)
    assert (entity.change, entity.entity, entity.omitted) == ("snapshot", {"id": "a"}, ("old", "new", "entity"))
    assert (change.change, change.id, change.entity) == ("updated", "a", {"id": "a"})
    assert (change.omitted, change.old, change.new) == (("old", "new", "entity"), {}, {})


def test_nothing_is_missing_between_the_model_and_the_changes_while_others_write(log: PublishedLog) -> None:
    log.fill(300)
    log.snapshot()
    wait_until(log.mirrored)
    with writing(log, 300, deletes=False):
        for _ in range(8):
            with FollowedLog(log) as reader:
                reader.wait(lambda reader=reader: len(reader.changes()) > 50)
            seqs = reader.changes()
            assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
            assert reader.reasons() == ["no_position"]
            assert reader.snapshot_sizes == [300], "an entity that changed while the model was read is not in it"
    with FollowedLog(log) as reader:
        wait_until(log.mirrored)
        reader.wait_for(log)


def test_another_process_reads_on_after_the_stored_position(log: PublishedLog) -> None:
    log.fill(3)
    log.snapshot()
    wait_until(log.mirrored)
    stored = json.dumps(first(log, 5)[-1].position)
    for number in range(1, 1500):
        log.write("e-0", n=number)
    half = first(log, 700, json.loads(stored))
    rest = first(log, 799, json.loads(json.dumps(half[-1].position)))
    assert [entry.new["n"] for entry in half + rest] == list(range(1, 1500))


def test_a_position_within_a_snapshot_is_the_one_before_it(log: PublishedLog) -> None:
    log.fill(3)
    log.snapshot()
    wait_until(log.mirrored)
    model = first(log, 5)
    assert [bool(entry.position) for entry in model] == [False] * 4 + [True]
    log.write("e-0", n=1)
    log.snapshot()
    change, begin, entity = first(log, 3, model[-1].position)
    assert (change.change, begin.change, entity.change) == ("updated", "snapshot_begin", "snapshot")
    assert begin.reason == ""
    assert change.position == begin.position == entity.position
    assert [entry.change for entry in first(log, 5, entity.position)][::4] == ["snapshot_begin", "snapshot_end"]


def test_a_purged_position_begins_with_the_model_and_says_so(log: PublishedLog) -> None:
    log.fill(3)
    log.snapshot()
    wait_until(log.mirrored)
    position = first(log, 5)[-1].position
    log.write("e-0", n=1)
    log.purge()
    with FollowedLog(log, position) as reader:
        reader.wait_for(log)
    assert reader.reasons() == ["purged"]
    assert [entry.change for entry in reader.entries] == ["snapshot_begin", *["snapshot"] * 3, "snapshot_end"]


def test_a_reading_goes_on_behind_a_message_that_is_no_change(log: PublishedLog) -> None:
    log.fill(1)
    log.snapshot()
    wait_until(log.mirrored)
    with LogReader([log.url], log.stream) as reader:
        entries = reader.read(timeout=deadline(PATIENCE_SECONDS))
        assert [next(entries).change for _ in range(3)] == ["snapshot_begin", "snapshot", "snapshot_end"]
        log.publish_foreign(b"nonsense")
        log.write("e-0", n=1)
        with pytest.raises(UnknownMessage, match="the message 5 of the stream is no change") as caught:
            next(entries)
        assert caught.value.sequence == 5
        assert next(entries).new == {"n": 1}


def test_a_reader_that_lags_behind_a_purge_gets_the_model_again(log: PublishedLog) -> None:
    log.fill(3)
    log.snapshot()
    wait_until(log.mirrored)
    with LogReader([log.url], log.stream) as reader:
        entries = reader.read(timeout=deadline(PATIENCE_SECONDS))
        program = FollowedLog(log)
        for _ in range(5):
            program.apply(next(entries))
        for number in range(1, 3000):
            log.write("e-1", n=number)
        log.purge()
        log.write("e-2", n=1)
        while not program.position or program.position[PARTITION][1] < log.seq:
            program.apply(next(entries))
    assert program.model == log.truth
    assert program.reasons() == ["no_position", "purged"]


def test_an_unfinished_snapshot_ends_when_the_publisher_ends_it(log: PublishedLog) -> None:
    log.fill(5)
    log.snapshot()
    del log.truth["e-4"]
    log.snapshot(until=base.SNAPSHOT)
    wait_until(log.mirrored)
    with FollowedLog(log) as reader:
        reader.wait(lambda: len(reader.entries) == 5)
        assert not reader.position
        log.end_snapshot()
        reader.wait_for(log)
    assert [entry.change for entry in reader.entries] == ["snapshot_begin", *["snapshot"] * 4, "snapshot_end"]


def test_a_model_whose_last_message_has_expired_ends_and_the_next_change_follows(log: PublishedLog) -> None:
    log.fill(2)
    log.snapshot()
    log.remove("e-1")
    log.expire_last()
    with FollowedLog(log) as reader:
        reader.wait(lambda: reader.snapshot_sizes == [1])
        log.write("e-0", n=1)
        reader.wait(lambda: reader.changes() == [log.seq])
    assert reader.reasons() == ["no_position"]


@pytest.mark.parametrize("states", [False, True])
def test_a_model_whose_last_message_is_replaced_while_it_is_read_is_read_once(
    log: PublishedLog, monkeypatch: pytest.MonkeyPatch, states: bool
) -> None:
    log.fill(2)
    log.snapshot()
    log.write("e-1", n=1)
    wait_until(log.mirrored)
    writes = itertools.count(2)

    async def find(js: JetStreamContext, stream: str) -> CurrentModel:
        model = await find_model(js, stream)
        if (n := next(writes)) < 4:
            log.write("e-1", n=n)
            wait_until(log.mirrored)
        return model

    monkeypatch.setattr("watcher_sync.client.log.follower.find_model", find)
    follower = LogFollower(connector([log.url], {}), log.stream, [], states=states)
    follower.start()
    try:
        wait_until(lambda: any(isinstance(each, ModelEnds) for each in follower.take(1) or []))
        assert log.info(log.model).consumer_count < 5
    finally:
        follower.close()


def test_a_follower_of_states_that_was_away_while_a_deletion_expired_reads_the_model_again(log: PublishedLog) -> None:
    log.fill(2)
    log.snapshot()
    wait_until(log.mirrored)
    epoch, seq, sequence = first(log, 4)[-1].position[PARTITION]
    connected: list[tuple[asyncio.AbstractEventLoop, Client]] = []
    is_away = threading.Event()

    async def connect(closed: Closed) -> Client:
        if is_away.is_set():
            raise OSError("away")
        client = await connector([log.url], {})(closed)
        connected.append((asyncio.get_running_loop(), client))
        return client

    follower = LogFollower(connect, log.stream, [(epoch, seq, sequence)], states=True)
    follower.start()
    try:
        wait_until(lambda: follower.is_connected)
        is_away.set()
        loop, client = connected[-1]
        asyncio.run_coroutine_threadsafe(client.close(), loop).result()
        log.remove("e-1")
        log.expire_last()
        log.purge()
        is_away.clear()
        received = follower.take(deadline(PATIENCE_SECONDS)) or []
        assert isinstance(received[0], ModelBegins)
        assert received[0].reason == "purged"
    finally:
        follower.close()


def test_a_stream_that_was_created_again_is_read_from_its_model(log: PublishedLog) -> None:
    log.fill(4)
    log.snapshot()
    with FollowedLog(log) as reader:
        wait_until(log.mirrored)
        reader.wait_for(log)
        log.delete()
        log.create()
        del log.truth["e-3"]
        log.epoch, log.seq = "epoch-2", 1
        log.snapshot()
        for number in range(20):
            log.write("e-1", n=number)
        reader.wait_for(log)
        assert reader.reasons() == ["no_position", "replaced"]
    # The old stream had another message at this place.
    with FollowedLog(log, {PARTITION: ("epoch-1", 4, 5)}) as again:
        again.wait_for(log)
    assert again.reasons() == ["replaced"]


def test_a_server_that_is_killed_under_load_costs_no_change_and_repeats_none(own_nats: Server) -> None:
    with published_log(own_nats.url) as log:
        log.fill(50)
        log.snapshot()
        with FollowedLog(log) as reader:
            with writing(log, 50) as stopping:
                reader.wait(lambda: len(reader.changes()) > 100)
                count = len(reader.changes())
                own_nats.kill()
                own_nats.start()
                reader.wait(lambda: len(reader.changes()) > count + 50)
                stopping.set()
            reader.wait_for(log)
        seqs = reader.changes()
        assert seqs == list(range(seqs[0], log.seq + 1))
        assert reader.reasons() == ["no_position"]


def test_a_reader_waits_for_a_log_that_is_not_there_and_ends_when_it_is_closed(own_nats: Server) -> None:
    with published_log(own_nats.url) as log:
        own_nats.stop()
        with FollowedLog(log) as reader:
            own_nats.start()
            log.write("a", n=1)
            log.snapshot()
            reader.wait_for(log)
        with LogReader([log.url], log.stream) as unread:
            assert list(unread.read(reader.position, timeout=0.1)) == []


def in_domain(domain: str, more: str) -> str:
    """The configuration of a server that has a JetStream domain."""
    return f'jetstream {{ domain: {domain}, store_dir: "{{home}}/jetstream" }}\n{more}'


def test_a_reader_at_a_leaf_node_names_the_domain_that_has_the_streams() -> None:
    port = free_port()
    hub = f'leafnodes {{ listen: "127.0.0.1:{port}" }}'
    leaf = f'leafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{port}" }}] }}'
    with (
        private_nats(in_domain("hub", hub)) as center,
        private_nats(in_domain("edge", leaf)) as edge,
        published_log(center.url) as log,
    ):
        log.fill(3)
        log.snapshot()
        log.url = edge.url
        with FollowedLog(log, domain="hub") as reader:
            reader.wait_for(log)


def test_the_example_of_the_page_reads_on_where_it_ended(
    log: PublishedLog, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", PAGE.read_text(encoding="utf-8"))
    assert found
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(textwrap.dedent(found[1]), str(PAGE), "exec"), names)
    # The example reads without end; the test ends it after three entries, and after one.
    read, counts = LogReader.read, iter([3, 1])
    monkeypatch.setattr(LogReader, "read", lambda *arguments: itertools.islice(read(*arguments), next(counts)))
    log.write("a", n=1)
    log.snapshot()
    wait_until(log.mirrored)
    names["follow"]([log.url], log.stream, tmp_path / "position.json")
    log.write("a", n=2)
    names["follow"]([log.url], log.stream, tmp_path / "position.json")
    assert capsys.readouterr().out.splitlines() == [
        "snapshot_begin   1 {}",
        "snapshot instance a 1 {}",
        "snapshot_end   1 {}",
        "updated instance a 2 {'n': 2}",
    ]
