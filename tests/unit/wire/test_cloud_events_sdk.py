# SPDX-License-Identifier: Apache-2.0
"""The CloudEvents SDK as the oracle: what it writes and reads, we read the same."""

from __future__ import annotations

import datetime
import json
import random
import string
from typing import Any

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from watcher_sync.events import Event
from watcher_sync.wire.envelopes import read_message

pytestmark = pytest.mark.slow

COUNT = 10_000
FORMAT = JSONFormat()
TEXT = string.ascii_letters + string.digits + ' -_./:%+"\\äß漢🜚'


def text(rng: random.Random) -> str:
    return "x" + "".join(rng.choices(TEXT, k=rng.randrange(1, 24)))


def value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(6 if depth > 2 else 8)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind == 2:
        return rng.randrange(-(2**53), 2**53)
    if kind == 3:
        return rng.uniform(-1e6, 1e6)
    if kind < 6:
        return text(rng)
    if kind == 6:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(5))}


def generated(rng: random.Random) -> CloudEvent:
    moment = datetime.datetime.fromtimestamp(rng.randrange(2**31), datetime.UTC)
    moment += datetime.timedelta(microseconds=rng.choice([0, 1, 250_000, 999_999]))
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": text(rng),
        "source": rng.choice(["dcm/providers/p1", "kubevirt.localhost", text(rng).replace(" ", "")]),
        "type": f"dcm.status.{rng.choice(['vm', 'container', 'cluster'])}",
        "time": moment.astimezone(datetime.timezone(datetime.timedelta(minutes=rng.choice([0, 90, -300])))),
    }
    if rng.random() < 0.7:
        attributes["subject"] = text(rng)
    if rng.random() < 0.9:
        attributes["datacontenttype"] = "application/json"
    if rng.random() < 0.3:
        attributes["extension"] = text(rng)
    return CloudEvent(attributes, {"id": text(rng), "status": "RUNNING", "more": value(rng)})


def ours(message: http.HTTPMessage) -> Event:
    return read_message(message.body, dict(message.headers), source="dcm")


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_ten_thousand_generated_events_are_read_as_the_sdk_reads_them(mode: str) -> None:
    rng = random.Random(20260101)
    write = {"structured": http.to_structured, "binary": http.to_binary}[mode]
    read = {"structured": http.from_structured, "binary": http.from_binary}[mode]
    for _ in range(COUNT):
        message = write(generated(rng), FORMAT)
        theirs, event = read(message, FORMAT), ours(message)
        assert event.undecodable is None, message
        assert (event.id, event.type, event.origin) == (theirs.get_id(), theirs.get_type(), theirs.get_source())
        assert event.subject == (theirs.get_subject() or "")
        assert event.time == theirs.get_time()
        assert event.read() == data_of(theirs)


@pytest.mark.parametrize("attribute", ["source", "type"])
def test_both_refuse_an_event_without_a_required_attribute(attribute: str) -> None:
    """The SDK makes up an id and a specversion where they are missing; we do not."""
    message = http.to_structured(generated(random.Random(1)), FORMAT)
    document = json.loads(message.body)
    del document[attribute]
    lacking = http.HTTPMessage(headers=message.headers, body=json.dumps(document).encode())
    with pytest.raises(Exception, match=attribute):
        http.from_structured(lacking, FORMAT)
    assert ours(lacking).undecodable is not None


def data_of(event: Any) -> Any:
    data = event.get_data()
    return json.loads(data) if isinstance(data, (str, bytes)) else data
