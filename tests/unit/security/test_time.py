# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""A time in the far future freezes no entity: the event waits in quarantine, and later events are applied."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
import pytest

from tests.unit.api.conftest import application, client, conf, store  # noqa: F401 - fixtures
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitLimits, CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.replay import replay, replay_quarantined
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import CLOUD_EVENTS, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.dcm.handler.handler import OPTIONS, DcmHandler
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Change, Outcome, Seen, Upsert
from watcher_sync.model.clock import limit_at
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.stored.quarantine import Quarantine

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
FAR = datetime.datetime(5137, 1, 1, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)


STRUCTURED = {"Content-Type": "application/cloudevents+json"}


class OwnClock:
    """A plugin that makes its versions on its own, of what its payload says."""

    events: ClassVar[Mapping[str, str]] = {"own.state": "on_state", "own.seen": "on_seen", "own.digits": "on_digits"}

    def on_state(self, event: Event, _view: Any) -> Iterable[Change]:
        assert event.time is not None
        return (Upsert("aggregate", "a", event.time.isoformat(), {"state": {"name": event.id}}),)

    def on_seen(self, event: Event, _view: Any) -> Iterable[Change]:
        return (Seen("compute_node", "host", event.data),)

    def on_digits(self, event: Event, _view: Any) -> Iterable[Change]:
        version = sortable.digits(sortable.not_in_future(event.data, "data.at"), "data.at")
        return (Upsert("aggregate", "a", version, {"state": {"name": event.id}}),)


class Clock:
    """This system's clock."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime.datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


CREATE = {option.name: option.default for option in OPTIONS} | {"unknown_instance": "create", "source_policy": "off"}
"""The options of the handler."""


@pytest.fixture
def cycle(store: Any, clock: Clock) -> CommitCycle:
    handlers = [("nova", NovaHandler()), ("dcm", DcmHandler(CREATE)), ("own", OwnClock())]
    return CommitCycle(store, store.load(), Dispatcher(handlers), CommitOptions(now=clock))


def dcm(event_id: str, status: str = "RUNNING", time: Any = None, sequence: Any = None, **data: Any) -> Event:
    body = {"id": "vm-1", "status": status, **data}
    return Event(
        id=event_id,
        type="dcm.status.vm",
        source="dcm",
        origin="dcm/providers/p",
        time=time,
        data=body,
        sequence=sequence,
        envelope=CLOUD_EVENTS,
    )


def nova(event_id: str, time: datetime.datetime = NOW, **fields: str) -> Event:
    data = {"uuid": "i-1", "state": "active", "updated_at": "2026-03-01T11:00:00Z", **fields}
    payload = {
        "nova_object.name": "InstanceUpdatePayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "2.1",
        "nova_object.data": data,
    }
    return Event(id=event_id, type="instance.update", source="nova", origin="nova-compute:h", time=time, data=payload)


def own(event_id: str, what: str, **fields: Any) -> Event:
    return Event(id=event_id, type=f"own.{what}", source="own", **fields)


def outcomes(cycle: CommitCycle, *events: Event) -> list[Outcome]:
    """The outcome of each event, one batch each."""
    found = []
    for event in events:
        before = dict(cycle.stats.outcomes)
        cycle.run(Batch(events=[event]))
        found += [o for (s, o), n in cycle.stats.outcomes.items() if n > before.get((s, o), 0)]
    return found


def reasons(store: Any) -> list[str]:
    return [row["reason"] for row in Quarantine(store).page()]


FUTURE = {
    "time": (dcm("bad", time=FAR), dcm("good", "STOPPED", time=NOW)),
    "data.timestamp": (dcm("bad", timestamp=FAR.isoformat()), dcm("good", "STOPPED", timestamp=NOW.isoformat())),
    "sequence": (
        dcm("bad", sequence=(int(FAR.timestamp()) * 10**6, 1)),
        dcm("good", "STOPPED", sequence=(int(NOW.timestamp()) * 10**6, 1)),
    ),
    "nova time": (nova("bad", time=FAR), nova("good", state="stopped")),
    "a plugin's time": (own("bad", "state", time=FAR), own("good", "state", time=NOW)),
    "data.at": (own("bad", "digits", data=FAR), own("good", "digits", data=NOW)),
    "sign of life": (own("bad", "seen", data=FAR), own("good", "state", time=NOW)),
}


@pytest.mark.slow
@pytest.mark.parametrize("field", FUTURE)
def test_an_event_from_the_future_is_quarantined_and_the_next_one_is_applied(
    cycle: CommitCycle, store: Any, field: str
) -> None:
    bad, good = FUTURE[field]
    assert outcomes(cycle, bad, good) == [Outcome.QUARANTINED, Outcome.APPLIED]
    (reason,) = reasons(store)
    assert field.rpartition(" ")[2] in reason or "time" in reason
    assert "5137" in reason
    assert "[engine] max_clock_skew" in reason
    assert "300 s" in reason


def test_a_clock_that_is_ahead_within_the_limit_is_accepted(cycle: CommitCycle, store: Any) -> None:
    limit = NOW + 300 * SECOND
    assert outcomes(cycle, dcm("1", time=limit), dcm("2", time=limit + SECOND)) == [
        Outcome.APPLIED,
        Outcome.QUARANTINED,
    ]
    (reason,) = reasons(store)
    assert reason.startswith("time: 2026-03-01T12:05:01+00:00 is 301 s ahead of this system's clock")


def test_a_time_without_a_zone_is_utc_and_a_zone_hides_no_future(cycle: CommitCycle) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-1))
    ahead = dcm("2", time=NOW.replace(tzinfo=zone))
    naive = dcm("1", time=NOW.replace(tzinfo=None))
    assert outcomes(cycle, naive, ahead) == [Outcome.APPLIED, Outcome.QUARANTINED]


def test_an_event_from_the_future_can_be_replayed_when_its_time_has_come(
    cycle: CommitCycle, store: Any, clock: Clock
) -> None:
    tomorrow = NOW + datetime.timedelta(days=1)
    assert outcomes(cycle, dcm("1", time=tomorrow)) == [Outcome.QUARANTINED]
    clock.now = tomorrow
    ((row, event),) = Quarantine(store).events()
    cycle.run(Batch(events=[event], released=[row]))
    assert cycle.stats.total(Outcome.APPLIED) == 1
    assert reasons(store) == []


def test_the_clock_is_read_once_per_batch_whatever_its_size(store: Any) -> None:
    calls = []

    def now() -> datetime.datetime:
        calls.append(1)
        return NOW

    cycle = CommitCycle(store, store.load(), Dispatcher([("dcm", DcmHandler(CREATE))]), CommitOptions(now=now))

    def reads(n: int) -> int:
        calls.clear()
        cycle.run(Batch(events=[dcm(str(i), time=NOW + i * SECOND) for i in range(n)]))
        return len(calls)

    assert reads(1) == reads(200)


def test_a_replay_and_the_replay_of_quarantined_events_have_the_limit(store: Any) -> None:
    dispatcher = Dispatcher([("dcm", DcmHandler(CREATE))])
    far = msgspec.structs.replace(dcm("1", time=FAR), source="replay")  # a source that may be replayed by its name
    assert replay(store, dispatcher, [far], batch_size=10)["quarantined"] == 1
    again = replay_quarantined(store, dispatcher, list(Quarantine(store).events()), batch_size=10)
    assert again["quarantined"] == 1
    century = 4000 * 366 * 86_400.0
    allowed = replay_quarantined(
        store, dispatcher, list(Quarantine(store).events()), batch_size=10, limits=CommitLimits(max_clock_skew=century)
    )
    assert allowed["applied"] == 1


def test_a_process_without_a_replica_has_the_limit(store: Any) -> None:
    writer = DirectWriter(store, Dispatcher([("dcm", DcmHandler(CREATE))]))
    found, _ = writer.run([dcm("1", time=FAR), dcm("2", time=NOW)])
    assert found == [Outcome.QUARANTINED, Outcome.APPLIED]


def test_events_of_the_api_have_the_limit(client: Any) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "dcm/providers/p", "type": "dcm.status.vm"}
    body = {**event, "time": "5137-01-01T00:00:00Z", "data": {"id": "vm-1", "status": "RUNNING"}}
    answer = client.simulate_post("/v1/events", body=json.dumps(body), headers=STRUCTURED)
    assert answer.status_code == 200, answer.text
    assert [e["outcome"] for e in answer.json["events"]] == ["quarantined"]


def test_the_limit_ends_with_its_batch(cycle: CommitCycle) -> None:
    outcomes(cycle, dcm("1", time=FAR))
    assert sortable.digits(FAR, "x") == sortable.digits(FAR, "x")
    with pytest.raises(InvalidEvent, match="before 1970 or after 5138"):
        sortable.digits(datetime.datetime(5139, 1, 1, tzinfo=datetime.UTC), "x")
    with pytest.raises(InvalidEvent, match="before 1970 or after 5138"):
        sortable.digits(datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC), "x")


def test_a_transaction_keeps_to_its_limit_for_signs_of_life(cycle: CommitCycle) -> None:
    transaction = Transaction(cycle.model)
    transaction.clock_limit = limit_at(NOW, 0)
    with pytest.raises(InvalidEvent, match="compute_node host: the time of a sign of life: 5137"):
        transaction.apply(own("1", "seen"), [Seen("compute_node", "host", FAR)])


def test_a_row_of_the_past_can_still_be_written_by_the_api(client: Any, store: Any) -> None:
    """A version of the API is newer than every event's: also than one that froze its facet before this limit."""
    dispatcher = Dispatcher([("dcm", DcmHandler(CREATE))])
    writer = DirectWriter(store, dispatcher, limits=CommitLimits(max_clock_skew=4000 * 366 * 86_400.0))
    assert writer.run([dcm("1", time=FAR)])[0] == [Outcome.APPLIED]
    path = "/v1/service_type_instances/vm-1"
    put = client.simulate_put(path, json={"service_type": "container", "provider_name": "q"})
    assert put.status_code == 200, put.text
    assert put.json["service_type"] == "container"
