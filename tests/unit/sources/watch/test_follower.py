# SPDX-License-Identifier: Apache-2.0
"""The follower: listing, then the stream from where the listing began; failures, loops, positions."""

from __future__ import annotations

import datetime
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import msgspec
import pytest

from watcher_sync.client import Unreachable
from watcher_sync.client.watch import EventsPurged, EventType, Unauthenticated, WatchEvent
from watcher_sync.events import Event
from watcher_sync.sources.base import SourceState
from watcher_sync.sources.watch.follower import Follower
from watcher_sync.sources.watch.options import Settings
from watcher_sync.sources.watch.region import Page
from watcher_sync.sources.watch.states import Document, is_loop, loop_of
from watcher_sync.wire.watch import events_pb2

LINK = "/management/v1alpha1/watchtopics/federation"
SETTINGS = Settings(
    source="north", site="north", endpoint="http://r", address=None, stream_tls=None, topic="federation",
    timeout=1, page_size=2, backoff_max=0.01,
)  # fmt: skip


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    """:raises AssertionError: when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


class Watching:
    """One watch: it sends what follows its position, and what the region adds."""

    def __init__(self, region: FakeRegion, after: int) -> None:
        self.region = region
        self.after = after
        self.got: queue.Queue[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.region.watching = None

    def register_watch(self, link: str, events: queue.Queue[Any], errors: queue.Queue[Any]) -> str:
        assert link == LINK
        assert events is errors
        self.got = events
        if self.region.refuses_token:
            events.put(Unauthenticated("the token is not valid"))
            return "w"
        if self.after + 1 < self.region.oldest or self.after > self.region.seq:
            events.put(EventsPurged(link, self.after))
            return "w"
        with self.region.lock:
            for event in self.region.journal:
                if event.sequence > self.after:
                    events.put(event)
            self.region.watching = self
        return "w"

    def status(self) -> bool:
        return True


class FakeRegion:
    """A region with aggregates; each write is a row of its journal."""

    topic_link = LINK

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entities: dict[str, int] = {}
        self.journal: list[WatchEvent] = []
        self.seq = 0
        self.oldest = 1
        self.shown_seq: int | None = None
        """What the API answers as its head; None: the truth."""
        self.fails_on_page = 0
        self.refuses_token = False
        self.positions: list[int] = []
        self.watching: Watching | None = None
        self.between_pages: list[Any] = []
        """Functions that run after a page was read."""
        self.fetched: list[list[str]] = []
        """The ids of each reading."""
        self.after_reading: list[Any] = []
        """Functions that run after entities were read."""

    def write(self, *ids: str) -> None:
        for one in ids:
            self._add(one, EventType.UPDATED if one in self.entities else EventType.CREATED)
            self.entities[one] = self.seq

    def delete(self, one: str) -> None:
        self._add(one, EventType.DELETED)
        del self.entities[one]

    def _add(self, one: str, what: EventType) -> None:
        with self.lock:
            self.seq += 1
            event = WatchEvent(
                id=f"{self.seq}", sequence=self.seq, previous=None, type=what, topic=LINK, group="compute",
                time=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), kind="Aggregate", name=one, entity_id=one,
                self_link=f"/v1/aggregates/{one}", subresource="", scope=None, references=(), attributes={},
                versions={"state": f"{self.seq:04d}"}, unset=(), correlation_id="", organization="",
                message=events_pb2.Event(),
            )  # fmt: skip
            self.journal.append(event)
            if self.watching is not None and self.watching.got is not None:
                self.watching.got.put(event)

    # As Region has it

    @property
    def client(self) -> Self:
        return self

    def watch_manager(self, *, sequence: Any, **settings: Any) -> Watching:
        self.positions.append(sequence.get(LINK))
        return Watching(self, sequence.get(LINK))

    def ensure_topic(self) -> None:
        pass

    def forget_token(self) -> None:
        self.refuses_token = False

    def kinds(self) -> dict[str, str]:
        return {"aggregate": "/v1/aggregates"}

    def pages(self, path: str) -> Iterator[Page]:
        last = ""
        for number in range(1, 100):
            if number == self.fails_on_page:
                raise Unreachable("no route")
            ids = [one for one in sorted(self.entities) if one > last][:2]
            yield self._page(ids)
            if self.between_pages:
                self.between_pages.pop(0)()
            if len(ids) < 2:
                return
            last = ids[-1]

    def fetch(self, path: str, ids: Sequence[str]) -> Iterator[Page]:
        self.fetched.append(sorted(ids))
        yield self._page([one for one in sorted(ids) if one in self.entities])
        if self.after_reading:
            self.after_reading.pop(0)()

    def _page(self, ids: Sequence[str]) -> Page:
        found = [(Document(one, self.entities[one]), msgspec.json.encode({"id": one})) for one in ids]
        return Page(found, self.seq if self.shown_seq is None else self.shown_seq)


class Following:
    """A follower in its thread, and what it emitted."""

    def __init__(self, region: FakeRegion, position: int | None = None) -> None:
        self.events: list[Event] = []
        self.follower = Follower(SETTINGS, region, self.events.extend, position)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self.follower.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.follower.begin_stop()
        assert self.follower.join(10)

    def told(self) -> list[str]:
        """Types and subjects, in order."""
        return [f"{each.type.rpartition('.')[2]} {each.subject}".strip() for each in list(self.events)]

    def position(self) -> Any:
        return next((each.position for each in reversed(self.events) if each.position is not None), None)


def test_the_stream_begins_where_the_journal_was_before_the_first_page() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    region.between_pages = [lambda: region.write("aa", "d")]
    with Following(region) as following:
        wait_until(lambda: following.position() == 5, 10)
    assert region.positions == [3]
    assert following.told() == [
        "changed a", "changed b", "changed c", "changed d", "listed", "changed aa", "changed d",
    ]  # fmt: skip
    assert following.events[4].read() == {"ids": ["a", "b", "c", "d"], "max_delete_percent": 30.0}
    assert following.events[4].position == 3
    assert {each.origin for each in following.events} == {"north"}


def test_a_deletion_during_the_listing_follows_the_listing() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    region.between_pages = [lambda: region.delete("a")]
    with Following(region) as following:
        wait_until(lambda: following.position() == 4, 10)
    assert following.told() == ["changed a", "changed b", "changed c", "listed", "deleted a"]
    assert following.events[-1].read() == {"id": "a", "versions": {"state": "0004"}}


def test_a_listing_that_fails_emits_no_listed_event_and_is_repeated() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    region.fails_on_page = 2
    with Following(region) as following:
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED, 10)
        assert following.follower.detail == "no route"
        assert "listed" not in following.told()
        region.fails_on_page = 0
        wait_until(lambda: following.position() == 3, 10)
        assert following.follower.state is SourceState.CONNECTED
    assert following.told().count("listed") == 1


@pytest.mark.parametrize("position", [1, 9])
def test_a_position_that_the_region_does_not_have_is_healed_by_a_listing(position: int) -> None:
    region = FakeRegion()
    region.write("a", "b", "c", "d", "e")
    region.oldest = 4
    with Following(region, position) as following:
        wait_until(lambda: following.position() == 5, 10)
    assert region.positions == [position, 5]
    assert following.told()[-1] == "listed"


def test_a_stored_position_is_followed_without_a_listing() -> None:
    region = FakeRegion()
    region.write("a", "b")
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 2, 10)
    assert following.told() == ["changed b"]


def test_an_entity_that_changed_often_is_read_once() -> None:
    region = FakeRegion()
    for _ in range(50):
        region.write("a", "b")
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 100, 10)
    assert region.fetched == [["a", "b"]]
    assert sorted(following.told()) == ["changed a", "changed b"]


def test_changes_that_a_reading_had_already_are_not_read_again() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    with Following(region, 3) as following:
        wait_until(lambda: region.watching is not None, 10)
        watching, region.watching = region.watching, None
        region.write("a")  # in the journal and in the tables, and not on the stream yet
        region.write("b", "a", "c")
        assert watching is not None
        assert watching.got is not None
        watching.got.put(region.journal[3])
        wait_until(lambda: following.position() == 4, 10)
        for event in region.journal[4:]:
            watching.got.put(event)
        wait_until(lambda: following.position() == 7, 10)
    assert region.fetched[0] == ["a"]
    assert sorted({one for ids in region.fetched[1:] for one in ids}) == ["b", "c"]


def test_a_change_after_a_reading_is_read() -> None:
    region = FakeRegion()
    region.write("a", "b")
    region.after_reading = [lambda: region.write("a")]
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 3, 10)
    assert region.fetched == [["b"], ["a"]]


def test_an_empty_region_is_listed_until_it_has_a_journal() -> None:
    region = FakeRegion()
    with Following(region) as following:
        wait_until(lambda: following.told() == ["listed"], 10)
        region.write("a")
        wait_until(lambda: following.position() == 1, 10)
    assert following.told() == ["listed", "changed a", "listed"]


def test_a_token_that_the_stream_refuses_is_replaced() -> None:
    region = FakeRegion()
    region.write("a", "b")
    region.refuses_token = True
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 2, 10)
    assert following.told() == ["changed b"]


def test_an_api_behind_the_stream_is_asked_again() -> None:
    region = FakeRegion()
    region.write("a")
    with Following(region, 1) as following:
        wait_until(lambda: region.watching, 10)
        region.shown_seq = 1
        region.write("a")
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED, 10)
        assert following.told() == []
        region.shown_seq = None
        wait_until(lambda: following.position() == 2, 10)
    assert following.told() == ["changed a"]


@pytest.mark.parametrize("position", [None, 1])
def test_a_region_that_follows_this_installation_is_refused(position: int | None) -> None:
    region = FakeRegion()
    region.write("a", "global:north:a")
    with Following(region, position) as following:
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED, 10)
    assert following.follower.detail == (
        "loop north -> global -> north: the region follows this installation, it has 'global:north:a'; "
        "remove one of these sources"
    )
    assert not [each for each in following.told() if each != "changed a"]


@pytest.mark.parametrize(
    ("entity_id", "loops"),
    [
        ("a", False),
        ("north", False),
        ("south:a", False),
        ("north:a", True),
        ("x:y:north:a", True),
        ("northern:a", False),
    ],
)
def test_a_loop_is_seen_in_the_names_of_the_sites_on_the_way(entity_id: str, loops: bool) -> None:
    assert is_loop("north", entity_id) is loops


@pytest.mark.parametrize(
    ("entity_id", "sites"), [("north:a", "north -> north"), ("x:y:north:z:a", "north -> x -> y -> north")]
)
def test_a_loop_is_named_by_its_sites(entity_id: str, sites: str) -> None:
    assert loop_of("north", entity_id) == sites
