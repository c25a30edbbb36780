# SPDX-License-Identifier: Apache-2.0
"""The stored position in a stream never passes an uncommitted event, and is of use in its own queue only."""

from __future__ import annotations

import datetime
import json
import random
from typing import Any

import pytest
from oslo_config import cfg

from tests.unit.extensions.openstack.source.rabbitmq.test_settings import URL, make_conf
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import AckPosition
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.extensions.openstack.source.rabbitmq_stream.cursor import (
    RabbitMQCursor,
    StreamProgress,
    digest_of,
    read_cursor,
    read_start,
)
from watcher_sync.extensions.openstack.source.rabbitmq_stream.settings import RabbitMQStreamSettings
from watcher_sync.extensions.openstack.source.rabbitmq_stream.source import RabbitMQStreamSource

UTC = datetime.UTC
QUEUE = "/ nova"


def event(offset: int, stream: int = 0) -> Event:
    return Event(
        id=f"e-{stream}-{offset}",
        type="instance.update",
        source="nova",
        position=AckPosition(1, offset, offset, stream),
    )


def following(cursor: str | None) -> int:
    assert cursor is not None
    return int(json.loads(cursor)["next"])


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", "first"),
        ("next", "next"),
        ("0", 0),
        ("123", 123),
        ("2026-01-02T03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime.datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-01-02", datetime.datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_a_start_is_a_word_an_offset_or_a_time(text: str, start: object) -> None:
    assert read_start(text) == start


@pytest.mark.parametrize("text", ["", "last", "-1", "1.5", "yesterday", "9" * 30, "٣"])
def test_other_starts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="offset"):
        read_start(text)


def test_the_position_is_after_the_last_event_and_knows_its_id() -> None:
    progress = StreamProgress(QUEUE)
    text = progress.cursor([event(3), event(4), event(6)])
    assert read_cursor(text, QUEUE) == RabbitMQCursor(QUEUE, next=7, after=digest_of("e-0-6"))
    assert progress.cursor([]) is None


@pytest.mark.parametrize("text", [None, "", "1234", "{}", '{"queue":"/ nova","start":"soon"}', '{"queue":"/ other"}'])
def test_what_is_no_position_in_this_queue_is_not_used(text: str | None) -> None:
    assert read_cursor(text, QUEUE) is None


def test_the_position_stays_before_a_nacked_event_until_that_is_committed() -> None:
    progress = StreamProgress(QUEUE)
    assert following(progress.cursor([event(0), event(1)])) == 2
    progress.nack([event(1)])
    assert following(progress.cursor([event(2), event(3)])) == 1
    assert read_cursor(progress.cursor([event(4)]), QUEUE) == RabbitMQCursor(QUEUE, next=1)
    assert following(progress.cursor([event(1)])) == 5


def test_a_position_in_a_stream_that_was_created_again_forgets_the_old_one() -> None:
    progress = StreamProgress(QUEUE)
    progress.cursor([event(900)])
    progress.nack([event(900)])
    assert following(progress.cursor([event(0, stream=1), event(1, stream=1)])) == 2
    assert following(progress.cursor([event(901)])) == 2


@pytest.mark.parametrize("seed", range(20))
def test_the_position_is_never_beyond_the_lowest_uncommitted_event(seed: int) -> None:
    rng = random.Random(seed)
    progress = StreamProgress(QUEUE)
    queue = [[event(n) for n in range(start, start + 5)] for start in range(0, 200, 5)]
    committed: set[int] = set()
    while queue:
        batch = queue.pop(0)
        cursor = following(progress.cursor(batch))
        if rng.random() < 0.3:
            progress.nack(batch)
            queue.insert(rng.randint(0, len(queue)), batch)
            continue
        committed |= {e.position.offset for e in batch}
        assert set(range(cursor)) <= committed
    assert cursor == 200


# The source's options


def make_stream_conf(**options: Any) -> cfg.ConfigOpts:
    return make_conf(driver=RabbitMQStreamSource, transport_url=URL, **options)


def make_source(**options: Any) -> RabbitMQStreamSource:
    return RabbitMQStreamSource("nova", make_stream_conf(**options))


def test_the_limits_of_the_retention_are_arguments_of_the_stream() -> None:
    conf = make_stream_conf(stream_max_age="7D", stream_max_bytes=10, stream_segment_bytes=5)
    assert RabbitMQStreamSettings("nova", conf).retention == {
        "x-max-age": "7D",
        "x-max-length-bytes": 10,
        "x-stream-max-segment-size-bytes": 5,
    }
    assert RabbitMQStreamSettings("nova", make_stream_conf()).retention == {}


def test_a_wrong_start_is_a_mistake_in_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"\[source_nova\] stream_start: 'soon' is neither"):
        make_source(stream_start="soon")


def test_only_a_stream_can_be_rewound_and_only_to_a_place_in_its_history() -> None:
    source = make_source(pool="p")
    assert json.loads(source.cursor_at("first")) == {"queue": "cell 1 p", "start": "first"}
    assert json.loads(source.cursor_at("12"))["start"] == "12"
    for place in ("next", "soon"):
        with pytest.raises(ConfigError, match=f"source nova: '{place}' is n"):
            source.cursor_at(place)
    classic = RabbitMQSource("nova", make_conf(transport_url=URL))
    with pytest.raises(NotImplementedError):
        classic.cursor_at("first")


def test_other_queues_have_no_position_of_ours() -> None:
    assert RabbitMQSource("nova", make_conf(transport_url=URL)).cursor([event(1)]) is None
    assert following(make_source().cursor([event(1)])) == 2
