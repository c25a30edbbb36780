# SPDX-License-Identifier: Apache-2.0
"""API workers under gunicorn while another process writes: pages, streams, and how fast they are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import httpx

from tests.functional.api.writing import Writer
from tests.simulated import NOON
from tests.waiting import deadline, wait_until
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.writing.store import Store

INSTANCES = 6_000
STREAM = {"Accept": "text/event-stream"}


class Placed:
    """Events say which instances are on which host."""

    events = {"test": "placed"}  # noqa: RUF012

    def placed(self, event: Event, _view: object) -> Iterator[Upsert]:
        """One instance."""
        for number in event.read():
            host = f"host-{number % 1000}-{event.id[-1]}"
            facets = {"state": {}, "details": {"name": f"i{number}"}, "placement": {"host": host}}
            yield Upsert("instance", f"{number:032x}", event.id, facets)


def placing(number: int, *instances: int) -> Event:
    """An event that touches these instances."""
    return Event(id=f"{number:09d}", type="test", source="test", time=NOON, data=list(instances))


def cycle_on(store: Store) -> CommitCycle:
    """The engine's part."""
    return CommitCycle(store, store.load(), Dispatcher([("placed", Placed())]))


def busy(cycle: CommitCycle, count: int) -> Writer:
    """Changes 50 of so many instances in each batch, and makes and deletes none."""

    def change(number: int) -> list[Event]:
        at = number * 50 % count
        return [placing(number + 1, (at + i) % count) for i in range(50)]

    return Writer(cycle, change, pause=0.05)


def events_of(response: httpx.Response) -> Iterator[dict[str, object]]:
    """The changes that a stream tells."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


def test_pages_of_six_thousand_instances_are_whole_while_an_engine_writes(
    postgresql_store: Store, serve: Callable[..., httpx.Client], figure: Callable[[str], None]
) -> None:
    cycle = cycle_on(postgresql_store)
    for start in range(0, INSTANCES, 2000):
        cycle.run(Batch(events=[placing(1, *range(start, start + 2000))]))
    client = serve(postgresql_store, workers=2, threads=8)
    with busy(cycle, INSTANCES) as writer:
        seconds, seen, url = [], [], "/v1/instances?limit=100"
        for _ in range(20):
            client.get(url)
        writer.commits = 0
        while url:
            began = time.monotonic()
            page = client.get(url).json()
            seconds.append(time.monotonic() - began)
            if not seen:
                wait_until(lambda: writer.commits, what="a commit between the first page and the next")
            seen += [e["id"] for e in page["instances"]]
            url = page["next"]
    assert seen == [f"{number:032x}" for number in range(INSTANCES)]
    assert writer.commits > 0
    p50, p99 = (sorted(seconds)[int(len(seconds) * part) - 1] for part in (0.5, 0.99))
    figure(f"pages of 100: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms")


def test_a_change_of_another_process_reaches_streams_and_long_polls_at_once(
    store: Store, serve: Callable[..., httpx.Client]
) -> None:
    client = serve(store, workers=1, threads=8, max_streams=4)
    cycle = cycle_on(store)
    cycle.run(Batch(events=[placing(1, 1)]))
    polled: list[dict[str, object]] = []

    def poll(since: int) -> None:
        # A poll that no change wakes has no events after its time.
        polled.extend(client.get("/v1/events", params={"since": since, "wait": 60}).json()["events"])

    with client.stream("GET", "/v1/events?since=0", headers=STREAM) as response:
        told = events_of(response)
        assert next(told)["change"] == "created"
        thread = threading.Thread(target=poll, args=(cycle.model.generation,))
        thread.start()
        next(told)
        cycle.run(Batch(events=[placing(2, 2)]))
        row = next(row for row in told if row["event_id"] == "000000002")
        thread.join()
        assert [found["event_id"] for found in polled] == ["000000002"] * len(polled) != []
        assert row["kind"] in ("instance", "compute_node")


def test_idle_streams_do_not_block_other_requests_and_one_too_many_gets_a_retry_after(
    store: Store, serve: Callable[..., httpx.Client]
) -> None:
    client = serve(store, workers=1, threads=20, max_streams=16, max_streams_per_identity=16)
    limits = httpx.Limits(max_connections=30)
    with httpx.Client(base_url=client.base_url, timeout=deadline(60), limits=limits) as many:
        streams = [many.send(many.build_request("GET", "/v1/events", headers=STREAM), stream=True) for _ in range(16)]
        assert {s.status_code for s in streams} == {200}
        refused = client.get("/v1/events", headers=STREAM)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        # A request behind a stream would wait until the stream ends: for longer than the client waits.
        for _ in range(30):
            assert client.get("/v1/instances").status_code == 200
        for stream in streams:
            stream.close()


def test_writers_in_several_workers_and_an_engine_leave_a_journal_without_a_gap(
    store: Store, serve: Callable[..., httpx.Client]
) -> None:
    client = serve(store, workers=2, threads=4)
    cycle = cycle_on(store)
    answers: list[int] = []

    def write(name: str) -> None:
        for number in range(15):
            body = {"service_type": "vm", "instance_name": f"{name}-{number}"}
            answers.append(client.put(f"/v1/service_type_instances/{name}", json=body).status_code)

    with busy(cycle, 100):
        threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(set(answers)) == [200, 201], sorted(set(answers))
    cycle.catch_up()
    tables = store.load()
    assert cycle.model.generation == tables.generation
    mine, theirs = cycle.model.snapshot(), tables.snapshot()
    for kind in store.kinds:
        assert list(mine.dump(kind)) == list(theirs.dump(kind))
    with store.database.connect() as connection:
        seqs = list(connection.execute(store.tables.journal.select().order_by("seq")).scalars())
    assert seqs == list(range(1, tables.generation + 1))


def test_every_database_sorts_and_filters(store: Store, serve: Callable[..., httpx.Client]) -> None:
    cycle = cycle_on(store)
    cycle.run(Batch(events=[placing(1, *range(30))]))
    client = serve(store, workers=1, threads=2)

    def paged(url: str) -> list[tuple[str, str]]:
        """Host and id of each entry on all pages."""
        seen: list[tuple[str, str]] = []
        while url:
            page = client.get(f"{url}&limit=7" if "limit" not in url else url).json()
            seen += [
                (e.get("host"), e["id"]) for entries in page.values() if isinstance(entries, list) for e in entries
            ]
            url = page["next"]
        return seen

    upward = paged("/v1/instances?sort=host")
    assert len(upward) == len(set(upward)) == 30
    assert upward == sorted(upward)
    assert paged("/v1/instances?sort=-host") == upward[::-1]
    assert paged("/v1/aggregates?hosts=h") == []
