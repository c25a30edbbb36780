# SPDX-License-Identifier: Apache-2.0
"""No entity stops a log because its changes are too large, whichever driver publishes them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests.functional.log.jetstream_streams import LogReader, log_of
from tests.functional.log.memory_log import (
    NAME,
    Cloud,
    MemoryLog,
    MemoryOutlet,
    Process,
    configured,
    cursor_of,
    instance,
)
from tests.functional.log.publishing import answer_timeout
from tests.functional.log.test_kafka import MockCluster
from tests.functional.log.test_oslo_messaging import Listener
from tests.functional.sources.jetstream import dcm_of
from tests.functional.storage.conftest import opened
from tests.services.rabbitmq import private_rabbitmq_node
from tests.services.servers import nats_programs, private_nats
from tests.waiting import wait_until
from watcher_sync.extensions.log import cursors
from watcher_sync.extensions.log.base import Outlet
from watcher_sync.extensions.log.kafka.outlet import KafkaOutlet
from watcher_sync.extensions.log.nats_jetstream.outlet import NatsJetStreamOutlet
from watcher_sync.extensions.log.oslo_messaging.outlet import OsloMessagingOutlet
from watcher_sync.extensions.log.publisher import OutletPublisher
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

LIMIT = 1_000_000
"""Bytes, about, that each of these logs takes."""
PART = 420_000


class Seen(NamedTuple):
    """One message."""

    change: str
    seq: int
    id: str
    omitted: list[str]
    entity: dict[str, Any]


class LogOfDriver(NamedTuple):
    """A log, and an outlet for it."""

    outlet: Callable[[], tuple[Outlet, Any]]
    """A new one, with its configuration."""
    messages: Callable[[int], list[Seen]]
    """All, once the change with a seq is there."""
    retains_all: bool = True


def made(driver: type[Outlet], **options: Any) -> tuple[Outlet, Any]:
    conf = configured(driver, **options)
    return driver(NAME, conf), conf


def seen_in(body: bytes) -> Seen:
    data = json.loads(body)["data"]
    return Seen(data["change"], data["seq"], data.get("id", ""), data.get("omitted", []), data.get("entity") or {})


@contextmanager
def memory(*, tells: bool = True) -> Iterator[LogOfDriver]:
    log = MemoryLog()
    log.takes, log.limit = LIMIT, LIMIT if tells else None

    def outlet() -> tuple[Outlet, Any]:
        conf = configured()
        return MemoryOutlet(NAME, conf, log), conf

    yield LogOfDriver(outlet, lambda _: [seen_in(each.body) for each in log.changes])


@contextmanager
def nats_jetstream(program: str, config: str = "", *, seconds: float = 10) -> Iterator[LogOfDriver]:
    with private_nats(config, program) as server, dcm_of(server.url) as client, log_of(client) as names:
        reader = LogReader(client, names.name)
        options = {"servers": [server.url], "stream": names.name, "subject_prefix": names.name, "stream_mode": "create"}
        yield LogOfDriver(
            lambda: made(NatsJetStreamOutlet, partition="north", timeout=answer_timeout(seconds), **options),
            lambda _: [seen_in(record.data) for record in reader.changes()],
        )


@contextmanager
def kafka() -> Iterator[LogOfDriver]:
    cluster, topic = MockCluster(), f"watcher-sync-{secrets.token_hex(4)}"
    cluster.create(topic, f"{topic}.model")
    yield LogOfDriver(
        lambda: made(KafkaOutlet, servers=cluster.servers, topic=topic, timeout=answer_timeout()),
        lambda _: [seen_in(record.value() or b"") for record in cluster.records(topic)],
        retains_all=False,  # the mock cluster has the last 5 MiB
    )


@contextmanager
def oslo_messaging() -> Iterator[LogOfDriver]:
    """A broker that takes less than RabbitMQ does by default."""
    with private_rabbitmq_node() as node:
        node.evaluate(f"application:set_env(rabbit, max_message_size, {LIMIT})")
        listener = Listener("sizes", node.url)
        listener.start()
        options = {"transport_url": node.url, "exchange": "sizes", "topics": ["sizes"]}

        def messages(seq: int) -> list[Seen]:
            wait_until(lambda: listener.seqs()[-1:] == [seq])
            return [_seen_by_listener(each["payload"]["watcher_sync_object.data"]) for each in listener.seen]

        yield LogOfDriver(lambda: made(OsloMessagingOutlet, **options), messages)
        listener.stop()


def _seen_by_listener(data: dict[str, Any]) -> Seen:
    change = data["change"]["watcher_sync_object.data"]
    entity = {name: value for name, value in data.items() if name != "change"}
    return Seen(change["change"], change["seq"], change["id"] or "", change.get("omitted", []), entity)


LOGS = {
    "memory": memory,
    "kafka": kafka,
    "oslo_messaging": oslo_messaging,
    **{
        f"nats_jetstream-{i}": (lambda program=program: nats_jetstream(program))
        for i, program in enumerate(nats_programs())
    },
}


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest) -> Iterator[LogOfDriver]:
    with LOGS[request.param]() as made_log:
        yield made_log


@pytest.fixture
def store(migrated_sqlite_url: str) -> Iterator[Store]:
    store = opened(migrated_sqlite_url, builtin_kinds())
    yield store
    store.dispose()


@pytest.fixture
def cloud(store: Store) -> Cloud:
    return Cloud(store)


@contextmanager
def publishing(store: Store, log: LogOfDriver) -> Iterator[OutletPublisher]:
    process = Process(store)
    try:
        yield process.run(*log.outlet())
    finally:
        process.stop()


def text(size: int = PART, letter: str = "x") -> dict[str, str]:
    return {"text": letter * size}


def wait_for(store: Store, seq: int) -> None:
    wait_until(
        lambda: (found := cursor_of(store)).published_seq == seq and found.state == cursors.PUBLISHING,
        what=f"seq {seq}",
    )


def test_changes_above_the_limit_are_published_without_values_and_what_follows_too(
    store: Store, cloud: Cloud, log: LogOfDriver
) -> None:
    """An update has its values twice more than its entity has."""
    cloud.write(instance(1, project_id="p", metadata=text()))
    with publishing(store, log) as publisher:
        wait_until(lambda: publisher.stats.snapshots == 1)
        cloud.write(instance(1, metadata=text(letter="y")))
        cloud.write(instance(2, project_id="p", metadata=text(), extra_specs=text(), tags=["x" * PART]))
        cloud.write(instance(3, state="active"))
        head = cloud.write(instance(2, metadata={}))
        wait_for(store, head)
        detail = cursor_of(store).detail
        assert publisher.stats.omitted == 3
    changes = [seen for seen in log.messages(head) if not seen.change.startswith("snapshot")]
    assert [(each.seq, each.id, sorted(each.omitted)) for each in changes] == [
        (2, "i1", ["new", "old"]),
        (3, "i2", ["entity", "new", "old"]),
        (4, "i3", []),
        (5, "i2", ["new", "old"]),
    ]
    assert changes[0].entity["metadata"] == text(letter="y")
    assert changes[1].entity == {"id": "i2", "project_id": "p"}
    assert changes[3].entity["extra_specs"] == text()
    assert "too large for the log: 3; the last one: instance 'i2' at seq 5 has " in detail


@pytest.mark.parametrize("is_told", [True, False], ids=["reason", "reset"])
@pytest.mark.parametrize("program", nats_programs())
def test_a_log_that_reports_its_limit_only_by_a_refusal_does_not_stop_the_publisher(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, program: str, is_told: bool
) -> None:
    """The limit of an account is not what the server says when it greets, and a reset may be faster than the reason."""
    if not is_told:
        monkeypatch.setattr(
            "watcher_sync.extensions.log.nats_jetstream.publisher._TOO_LARGE", "a reason that no server says"
        )
    account = f"A {{ jetstream: enabled, users: [{{user: a, password: a}}], limits: {{ max_payload: {LIMIT} }} }}"
    config = f"max_payload: 8MB\naccounts {{ {account} }}\nno_auth_user: a"
    with nats_jetstream(program, config, seconds=2) as log, publishing(store, log) as publisher:
        wait_until(lambda: publisher.stats.snapshots == 1)
        for number in range(6):
            cloud.write(instance(number, project_id="p", metadata=text(), tags=["x" * PART * (number % 2)]))
        head = cloud.write(instance(6, state="active"))
        wait_for(store, head)
        assert publisher.stats.failures
        changes = [seen for seen in log.messages(head) if not seen.change.startswith("snapshot")]
    assert [each.id for each in changes] == [f"i{number}" for number in range(7)]
    assert ["entity" in each.omitted for each in changes] == [False, True, False, True, False, True, False]


def test_a_snapshot_has_a_marker_of_an_entity_above_the_limit(store: Store, cloud: Cloud, log: LogOfDriver) -> None:
    cloud.write(instance(1, state="active"))
    cloud.write(instance(2, metadata=text(), extra_specs=text(), tags=["x" * PART]))
    head = cloud.write(instance(3, state="active"))
    with publishing(store, log) as publisher:
        wait_until(lambda: publisher.stats.snapshots == 1)
        detail = cursor_of(store).detail
    found = log.messages(head)
    assert [each.change for each in found] == ["snapshot_begin", *["snapshot"] * 3, "snapshot_end"]
    entities = {each.id: each for each in found[1:-1]}
    assert {key: each.omitted for key, each in entities.items()} == {"i1": [], "i2": ["entity"], "i3": []}
    assert entities["i2"].entity == {"id": "i2", "project_id": None}
    assert "instance 'i2'" in detail


def test_a_snapshot_that_is_refused_for_the_size_of_an_entity_is_published_again(store: Store, cloud: Cloud) -> None:
    head = cloud.write(instance(1, metadata=text(), extra_specs=text(), tags=["x" * PART]), instance(2, state="active"))
    with memory(tells=False) as log, publishing(store, log) as publisher:
        wait_until(lambda: publisher.stats.snapshots == 1)
        assert publisher.stats.failures == 1
        found = {each.id: each.omitted for each in log.messages(head)[-3:-1]}
    assert found == {"i1": ["entity"], "i2": []}


def test_a_commit_of_many_large_changes_is_published_in_order(store: Store, cloud: Cloud, log: LogOfDriver) -> None:
    with publishing(store, log) as publisher:
        wait_until(lambda: publisher.stats.snapshots == 1)
        head = cloud.write(*(instance(number, metadata=text(450_000)) for number in range(40)))
        wait_for(store, head)
        assert publisher.stats.failures == 0
    changes = [seen for seen in log.messages(head) if not seen.change.startswith("snapshot")]
    expected = [(number + 1, f"i{number}") for number in range(40)]
    assert [(each.seq, each.id) for each in changes] == expected[0 if log.retains_all else -len(changes) :]
    assert {len(each.entity["metadata"]["text"]) for each in changes} == {450_000}
    assert not any(each.omitted for each in changes)
