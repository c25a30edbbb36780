# SPDX-License-Identifier: Apache-2.0
"""The follower: listing, then the changes from where the listing began; failures, loops, positions."""

from __future__ import annotations

import datetime
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import deadline, wait_until
from watcher_sync.api.http.positions import EPOCH
from watcher_sync.client import BadRequest, ClientError, Gone, Unreachable
from watcher_sync.client.models import Source
from watcher_sync.client.watch import EventType, Unauthenticated, WatchError, WatchEvent
from watcher_sync.events import Event
from watcher_sync.extensions.federation.source import follower, following
from watcher_sync.extensions.federation.source.follower import DeleteGuard, Follower
from watcher_sync.extensions.federation.source.loops import loop_of
from watcher_sync.extensions.federation.source.options import RegionSettings
from watcher_sync.extensions.federation.source.region import RegionChanges, RegionDeletion, RegionPage
from watcher_sync.extensions.federation.source.states import RegionDocument, is_loop, read_cursor
from watcher_sync.extensions.watch.wire import events_pb2
from watcher_sync.sources.base import SourceState, SourceStatus, StateLog

LINK = "/management/v1alpha1/watchtopics/federation"
SETTINGS = RegionSettings(
    source="north", site="north", endpoint="http://r", address=None, stream_tls=None, topic="federation",
    timeout=deadline(1), page_size=2, backoff_max=0.01,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses; no reading without an event, and no outage for an API that is behind, however slow the machine."""
    monkeypatch.setattr(follower, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(follower, "_STABLE_SECONDS", 0.05)
    monkeypatch.setattr(following, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(follower, "_READ_SECONDS", 600.0)
    monkeypatch.setattr(follower, "_BEHIND_SECONDS", 600.0)


class Watching:
    """One watch: it sends what follows its position, and what the region adds."""

    def __init__(self, region: FakeRegion, after: int) -> None:
        self.region = region
        self.after = after
        self.events: Callable[[WatchEvent], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.region.watching = None

    def register_watch(
        self, link: str, events: Callable[[WatchEvent], None], errors: Callable[[WatchError], None]
    ) -> str:
        assert link == LINK
        self.events = events
        if self.region.refuses_token:
            errors(Unauthenticated("the token is not valid"))
            return "w"
        with self.region.lock:
            for event in self.region.journal:
                if event.sequence > self.after:
                    events(event)
            self.region.watching = self
        return "w"

    def status(self) -> bool:
        return self.region.streams


class FakeRegion:
    """A region with aggregates; each write is a row of its journal."""

    topic_link = LINK

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.entities: dict[str, int] = {}
        self.journal: list[WatchEvent] = []
        self.seq = 0
        self.oldest = 1
        self.rows_per_page = 1_000
        self.shown_seq: int | None = None
        """What the API answers as its head; None: the truth."""
        self.fails_on_page = 0
        self.refuses_token = False
        self.is_away = False
        self.attempts = 0
        self.streams = True
        self.has_topic = True
        self.has_signals = True
        """Whether the stream sends the events."""
        self.positions: list[int] = []
        self.epoch = ""
        self.epochs: list[str] = []
        self.watching: Watching | None = None
        self.between_pages: list[Any] = []
        """Functions that run after a page was read."""
        self.read: list[int] = []
        """The position of each reading of changes."""
        self.after_reading: list[Any] = []
        """Functions that run after changes were read."""
        self.sources_shown: list[Source] = []
        self.source_lists = 0
        """How often the sources were listed."""
        self.refuses_sources: ClientError | None = None

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
            if self.has_signals and self.watching is not None and self.watching.events is not None:
                self.watching.events(event)

    # As Region has it

    @property
    def client(self) -> Self:
        return self

    def watch_manager(self, *, sequence: Any, **settings: Any) -> Watching:
        self.positions.append(sequence.get(LINK))
        self.epochs.append(sequence.get_epoch(LINK))
        return Watching(self, sequence.get(LINK))

    def sources(self) -> list[Source]:
        self.source_lists += 1
        if self.refuses_sources is not None:
            raise self.refuses_sources
        return self.sources_shown

    def ensure_topic(self) -> bool:
        self.attempts += 1
        if self.is_away:
            raise Unreachable("no route")
        return self.has_topic

    def forget_token(self) -> None:
        self.refuses_token = False

    def kinds(self) -> dict[str, str]:
        return {"aggregate": "/v1/aggregates"}

    def pages(self, path: str) -> Iterator[RegionPage]:
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

    def changes(self, since: int, epoch: str = "") -> RegionChanges:
        if self.is_away:
            raise Unreachable("no route")
        if not re.fullmatch(EPOCH["pattern"], epoch):
            raise BadRequest(400, "epoch: not an epoch")
        if epoch and epoch != self.epoch:
            raise Gone(410, f"the journal is of the epoch {self.epoch}")
        with self.lock:
            head = self.seq if self.shown_seq is None else self.shown_seq
            if since + 1 < self.oldest or since > head:
                raise Gone(410, f"the journal has no {since}")
            self.read.append(since)
            upto = min(head, since + self.rows_per_page)
            last = {event.entity_id: event for event in self.journal[since:upto]}
            states = {
                "aggregate": [
                    msgspec.Raw(msgspec.json.encode({"id": one, "seq": self.entities[one], "versions": {"state": "v"}}))
                    for one in last
                    if one in self.entities
                ]
            }
            deleted = [
                RegionDeletion("aggregate", one, event.sequence, dict(event.versions))
                for one, event in last.items()
                if one not in self.entities and event.type is EventType.DELETED
            ]
        if self.after_reading:
            self.after_reading.pop(0)()
        return RegionChanges(states, deleted, upto, head, self.epoch)

    def _page(self, ids: Sequence[str]) -> RegionPage:
        found = [(RegionDocument(one, self.entities[one]), msgspec.json.encode({"id": one})) for one in ids]
        return RegionPage(found, self.seq if self.shown_seq is None else self.shown_seq, self.epoch)


class Following:
    """A follower in its thread, and what it emitted."""

    def __init__(
        self, region: FakeRegion, cursor: int | str | None = None, settings: RegionSettings = SETTINGS
    ) -> None:
        self.events: list[Event] = []
        begin = read_cursor(None if cursor is None else str(cursor))
        self.follower = Follower(settings, region, self.events.extend, begin, DeleteGuard())  # type: ignore[arg-type]
        log = StateLog("global")
        self.follower.on_state = lambda: log.observe(self.status)

    def status(self) -> SourceStatus:
        return SourceStatus(state=self.follower.state, detail=self.follower.detail)

    def __enter__(self) -> Self:
        self.follower.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.follower.begin_stop()
        assert self.follower.join(deadline(60))

    def told(self) -> list[str]:
        """Types and subjects, in order."""
        return [f"{each.type.rpartition('.')[2]} {each.subject}".strip() for each in list(self.events)]

    def position(self) -> Any:
        found = self.cursor()
        return int(found.partition("@")[0]) if found else None

    def cursor(self) -> Any:
        """The last position, as it is stored."""
        return next((each.position for each in reversed(self.events) if each.position is not None), None)


def test_the_changes_begin_where_the_journal_was_before_the_first_page() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    region.between_pages = [lambda: region.write("aa", "d")]
    with Following(region) as following:
        wait_until(lambda: following.position() == 5)
    assert region.read[0] == 3
    assert region.positions == [5]
    assert following.told() == [
        "changed a", "changed b", "changed c", "changed d", "listed", "changed aa", "changed d",
    ]  # fmt: skip
    assert following.events[4].read() == {"ids": ["a", "b", "c", "d"], "max_delete_percent": 30.0, "first": False}
    assert following.events[4].position == "3"
    assert {each.origin for each in following.events} == {"north"}


def test_the_first_listing_and_it_alone_is_marked_as_the_first_one() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    following = Following(region)
    following.follower.is_first_contact = True
    with following:
        wait_until(lambda: following.position() == 3)
        region.oldest = 5
        region.write("d")
        wait_until(lambda: following.told().count("listed") == 2)
    listed = [each.read() for each in following.events if each.type.endswith("listed")]
    assert [(each["first"], each["max_delete_percent"]) for each in listed] == [(True, 30.0), (False, 30.0)]


def test_a_deletion_during_the_listing_follows_the_listing() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    region.between_pages = [lambda: region.delete("a")]
    with Following(region) as following:
        wait_until(lambda: following.position() == 4)
    assert following.told() == ["changed a", "changed b", "changed c", "listed", "deleted a"]
    assert following.events[-1].read() == {"id": "a", "versions": {"state": "0004"}}


def test_a_listing_that_fails_emits_no_listed_event_and_is_repeated() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    region.fails_on_page = 2
    with Following(region) as following:
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED)
        assert following.follower.detail == "no route"
        assert "listed" not in following.told()
        region.fails_on_page = 0
        wait_until(lambda: following.position() == 3)
        wait_until(lambda: following.follower.state is SourceState.CONNECTED)
    assert following.told().count("listed") == 1


@pytest.mark.parametrize("position", [1, 9])
def test_a_position_that_the_region_does_not_have_is_healed_by_a_listing(position: int) -> None:
    region = FakeRegion()
    region.write("a", "b", "c", "d", "e")
    region.oldest = 4
    with Following(region, position) as following:
        wait_until(lambda: following.position() == 5)
    assert region.read[0] == 5
    assert following.told()[-1] == "listed"


def test_a_stored_position_is_followed_without_a_listing() -> None:
    region = FakeRegion()
    region.write("a", "b")
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 2)
    assert following.told() == ["changed b"]


def test_an_entity_that_changed_often_is_read_once_and_before_the_stream_begins() -> None:
    region = FakeRegion()
    for _ in range(50):
        region.write("a", "b")
    with Following(region, 1) as following:
        wait_until(lambda: region.watching)
    assert region.read == [1]
    assert region.positions == [100]
    assert sorted(following.told()) == ["changed a", "changed b"]
    assert following.position() == 100


def test_a_backlog_of_several_pages_is_read_to_its_end() -> None:
    region = FakeRegion()
    region.rows_per_page = 3
    region.write("a", "b", "c", "d", "a", "e", "f")
    region.delete("b")
    with Following(region, 1) as following:
        wait_until(lambda: region.watching)
    assert region.read == [1, 4, 7]
    assert region.positions == [8]
    assert [each.position for each in following.events if each.position is not None] == ["4", "7", "8"]
    assert following.told()[-1] == "deleted b"


def test_events_of_changes_that_were_read_already_cause_no_reading() -> None:
    region = FakeRegion()
    region.write("a", "b", "c")
    with Following(region, 3) as following:
        wait_until(lambda: region.watching is not None)
        region.has_signals = False
        region.write("a", "b", "a", "c")  # in the journal and in the tables, and not on the stream yet
        watching = region.watching
        assert watching is not None
        assert watching.events is not None
        watching.events(region.journal[3])
        wait_until(lambda: following.position() == 7)
        for event in region.journal[4:]:
            watching.events(event)
        region.has_signals = True
        region.write("d")
        wait_until(lambda: following.position() == 8)
    assert region.read == [3, 3, 7]


def test_a_change_after_a_reading_is_read() -> None:
    region = FakeRegion()
    region.write("a", "b")
    region.after_reading = [lambda: region.write("a")]
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 3)
    assert following.told() == ["changed b", "changed a"]


def test_changes_without_an_event_are_read_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_READ_SECONDS", 0.05)
    region = FakeRegion()
    region.write("a")
    with Following(region, 1) as following:
        wait_until(lambda: region.watching is not None)
        region.has_signals = False
        region.streams = False
        region.write("b")
        wait_until(lambda: following.position() == 2)
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED)
    assert following.told() == ["changed b"]


def test_without_a_topic_the_changes_are_read_until_there_is_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower, "_READ_SECONDS", 0.05)
    monkeypatch.setattr(follower, "_TOPIC_SECONDS", 0.2)
    region = FakeRegion()
    region.has_topic = False
    region.write("a")
    with Following(region, 1) as following:
        for number in range(2, 5):
            region.write("b")
            wait_until(lambda: following.position() == number)  # noqa: B023
        assert following.follower.state is SourceState.CONNECTED
        assert "may not create" in following.follower.detail
        assert region.watching is None
        asked = region.attempts
        wait_until(lambda: region.attempts > asked + 1, what="further questions for the topic")
        region.has_topic = True
        wait_until(lambda: region.watching is not None)
        wait_until(lambda: following.follower.detail == "")
    assert len([line for line in logged(caplog) if "may not create" in line]) == 1


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_each_reason_of_an_outage_is_one_line_and_its_end_another_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower, "_READ_SECONDS", 0.01)
    monkeypatch.setattr(follower, "_STABLE_SECONDS", 0.3)
    caplog.set_level(logging.DEBUG)
    region = FakeRegion()
    region.write("a")
    with Following(region, 1) as following:
        wait_until(lambda: logged(caplog))  # the line follows the state
        caplog.clear()
        region.streams = False
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED)
        region.is_away = True
        wait_until(lambda: region.attempts > 4)
        region.is_away = False
        region.streams = True
        wait_until(lambda: following.follower.state is SourceState.CONNECTED and len(logged(caplog)) > 1)
    lines = logged(caplog)
    *outage, end = lines
    assert all("disconnected" in line for line in outage)
    assert len(outage) == len(set(outage)) <= 2, lines
    assert end == "source global: connected"


@pytest.mark.slow
def test_a_stream_that_is_refused_again_and_again_is_one_outage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower, "_READ_SECONDS", 0.01)
    monkeypatch.setattr(follower, "_STABLE_SECONDS", 60)
    caplog.set_level(logging.INFO)
    region = FakeRegion()
    region.write("a")
    with Following(region, 1):
        wait_until(lambda: logged(caplog))  # the line follows the state
        caplog.clear()
        for _ in range(3):
            for state in (False, True):
                region.streams = state
                count = len(region.read)
                wait_until(lambda: len(region.read) > count + 2)  # noqa: B023
    assert len(logged(caplog)) == 1, logged(caplog)


def test_a_loop_is_logged_once_however_many_entities_show_it(caplog: pytest.LogCaptureFixture) -> None:
    region = FakeRegion()
    region.write("global:north:a", "global:north:b")
    with Following(region) as following:
        wait_until(lambda: following.follower.detail == LOOP)
        region.write("global:north:c", "d")
        wait_until(lambda: following.position() == 4)
    assert logged(caplog, logging.WARNING) == [f"source north: {LOOP}"]


@pytest.mark.slow
def test_an_empty_region_is_listed_once_and_followed_from_the_first_change() -> None:
    region = FakeRegion()
    with Following(region) as following:
        wait_until(lambda: following.follower.state is SourceState.CONNECTED)
        assert (following.told(), following.position()) == (["listed"], 0)
        region.write("a")
        wait_until(lambda: region.watching)
    assert region.positions == [1], "a stream without a position may begin after the next change"
    assert following.told() == ["listed", "changed a"]


def test_a_token_that_the_stream_refuses_is_replaced() -> None:
    region = FakeRegion()
    region.write("a", "b")
    region.refuses_token = True
    with Following(region, 1) as following:
        wait_until(lambda: following.position() == 2)
    assert following.told() == ["changed b"]


def test_an_api_behind_the_stream_is_asked_again() -> None:
    region = FakeRegion()
    region.write("a")
    with Following(region, 1) as following:
        wait_until(lambda: region.watching)
        region.shown_seq = 1
        region.write("a")
        wait_until(lambda: len(region.read) > 3)
        assert following.told() == []
        assert following.follower.state is SourceState.CONNECTED
        region.shown_seq = None
        wait_until(lambda: following.position() == 2)
    assert following.told() == ["changed a"]


def test_an_api_that_stays_behind_the_stream_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_BEHIND_SECONDS", 0.1)
    region = FakeRegion()
    region.write("a")
    with Following(region, 1) as following:
        wait_until(lambda: region.watching)
        region.shown_seq = 1
        region.write("a")
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED)
        assert following.follower.detail == "the API is at sequence 1, and the stream at 2"


LOOP = (
    "loop north -> global -> north: the region follows this installation, it has 'global:north:a'; "
    "remove one of these sources"
)


@pytest.mark.parametrize("position", [None, 1])
def test_an_entity_that_shows_a_loop_is_left_out_and_all_others_are_followed(position: int | None) -> None:
    region = FakeRegion()
    region.write("a", "global:north:a", "b")
    with Following(region, position) as following:
        wait_until(lambda: following.position() == 3)
        region.write("c")
        wait_until(lambda: following.position() == 4)
        wait_until(lambda: following.status() == SourceStatus(state=SourceState.CONNECTED, detail=LOOP))
    subjects = {each.subject for each in following.events}
    assert subjects == ({"", "a", "b", "c"} if position is None else {"b", "c"})
    assert all(each.read()["ids"] == ["a", "b"] for each in following.events if each.type.endswith("listed"))


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_loop_is_shown_until_the_entity_that_shows_it_is_deleted_or_not_listed(is_listed: bool) -> None:
    region = FakeRegion()
    region.write("a", "global:north:a")
    with Following(region) as following:
        wait_until(lambda: following.follower.detail == LOOP)
        region.delete("global:north:a")
        if is_listed:
            region.oldest = 9
        region.write("b", "c", "d", "e", "f", "g")
        wait_until(lambda: following.position() == 9 and following.follower.detail == "")


@settings(deadline=None)
@given(ids=st.lists(st.lists(st.sampled_from(["north", "global", "a"]), min_size=1, max_size=4).map(":".join)))
def test_of_any_ids_those_without_the_site_on_their_way_are_followed(ids: list[str]) -> None:
    region = FakeRegion()
    region.write(*ids)
    following = Following(region)
    following.follower._list(region.kinds())
    listed, expected = following.events[-1].read()["ids"], sorted({one for one in ids if "north:" not in one})
    assert listed == sorted(each.subject for each in following.events[:-1]) == expected


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


def test_a_region_of_another_epoch_is_listed_and_what_it_says_is_newer() -> None:
    region = FakeRegion()
    region.epoch = "e1"
    region.write("a", "b")
    with Following(region, "9@e0") as following:
        wait_until(lambda: following.position() == 2 and region.watching)
    assert region.epochs == ["e1"]
    number = read_cursor(following.cursor()).number
    assert (read_cursor(following.cursor()).epoch, number) == ("e1", 1)
    assert [each.read()["region_epoch"] for each in following.events] == [1, 1, 1]
    again = FakeRegion()
    again.epoch = "e1"
    again.write("a", "b", "c")
    with Following(again, following.cursor()) as following:
        wait_until(lambda: following.position() == 3 and again.watching)
    assert (again.read[0], again.positions, again.epochs) == (2, [3], ["e1"])
    assert following.events[-1].read()["region_epoch"] == 1


def test_a_position_in_the_log_of_a_region_begins_with_a_listing_that_is_newer() -> None:
    region = FakeRegion()
    region.epoch = "e1"
    region.write("a", "b")
    with Following(region, "2@log/e1@@@@7") as following:
        wait_until(lambda: following.position() == 2)
    found = read_cursor(following.cursor())
    assert (found.epoch, found.number, found.message) == ("e1", 1, 0)
    assert [each.read()["region_epoch"] for each in following.events] == [1, 1, 1]


def test_a_region_that_tells_its_epoch_for_the_first_time_is_the_same() -> None:
    region = FakeRegion()
    region.epoch = "e1"
    region.write("a", "b")
    with Following(region, "1") as following:
        wait_until(lambda: following.position() == 2)
    assert read_cursor(following.cursor()).number == 0


def test_a_position_of_before_epochs_adopts_the_first_one_that_the_region_tells() -> None:
    region = FakeRegion()
    region.epoch = "e1"
    region.write("a", "b")
    with Following(region, "1") as following:
        wait_until(lambda: following.position() == 2 and region.watching)
    assert following.told() == ["changed b"]
    assert region.epochs == ["e1"]
    assert read_cursor(following.cursor()).epoch == "e1"


def test_a_region_that_goes_back_after_it_reported_its_first_epoch_is_listed_as_newer() -> None:
    region = FakeRegion()
    region.epoch = "e1"
    region.write("a", "b")
    with Following(region, "2") as following:
        wait_until(lambda: region.watching)
        with region.lock:
            region.epoch = "e2"  # restored, and another history overtook the position
            region.write("c")
        wait_until(lambda: following.position() == 3)
    assert following.told() == ["changed a", "changed b", "changed c", "listed"]
    assert read_cursor(following.cursor()).number == 1
    assert {each.read()["region_epoch"] for each in following.events} == {1}
