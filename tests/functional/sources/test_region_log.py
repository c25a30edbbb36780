# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation_log`` on a real JetStream: what it emits of a log, and where it goes on."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.js.client import JetStreamContext
from oslo_config import cfg

from tests.functional.client.published_log import PublishedLog, published_log, writing
from tests.services.ensure import url_of
from tests.unit.extensions.federation.source.odd_messages import WORST
from tests.waiting import deadline, eventually, wait_until
from watcher_sync.client.log import follower
from watcher_sync.client.log.consumer import LogLost
from watcher_sync.client.log.current_model import CurrentModel, find_model
from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.federation.source.listing import list_ids
from watcher_sync.extensions.federation.source.log_options import LOG_OPTIONS
from watcher_sync.extensions.federation.source.log_source import FederationLogSource
from watcher_sync.extensions.federation.source.states import read_cursor
from watcher_sync.extensions.log import base, formats

KINDS = ("aggregate", "instance")


@pytest.fixture(params=[formats.CLOUDEVENTS, formats.DEBEZIUM])
def log(request: pytest.FixtureRequest) -> Iterator[PublishedLog]:
    with published_log(url_of("nats"), format_name=request.param) as published:
        yield published


def configured(folder: Path, log: PublishedLog, *more: str) -> cfg.ConfigOpts:
    file = folder / "c.conf"
    lines = ["driver = federation_log", f"servers = {log.url}", f"stream = {log.stream}", *more]
    file.write_text("[engine]\nenabled_sources = north\n[source_north]\n" + "\n".join(lines))
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[str(file)])
    opts.register_source(conf, "north", LOG_OPTIONS)
    return conf


class Followed:
    """A source, and the model that its events make: ids of instances, with their fields."""

    def __init__(self, conf: cfg.ConfigOpts, cursor: str | None = None) -> None:
        self.events: list[Event] = []
        self.model: dict[str, Any] = {}
        self.listed: list[set[str]] = []
        """The ids of each listing of instances."""
        self.cursor = cursor
        self.gate = threading.Event()
        """The engine takes events while it is set."""
        self.gate.set()
        self.source = FederationLogSource("north", conf, cursor=cursor)
        self.source.stored_kinds = KINDS

    def take(self, events: list[Event]) -> None:
        assert self.gate.wait(deadline(60))
        for event in events:
            self.events.append(event)
            if event.undecodable is not None:
                continue
            document = event.read()
            if event.type == "federation.instance.listed":
                self.listed.append(set(document["ids"]))
                self.model = {key: value for key, value in self.model.items() if key in self.listed[-1]}
            elif event.type.endswith(".deleted"):
                self.model.pop(document["id"], None)
            elif event.type.endswith(".changed"):
                self.model[document["id"]] = document
        self.cursor = self.source.cursor(events) or self.cursor

    def fields(self) -> dict[str, Any]:
        """The entities without what the source adds."""
        return {
            key: {name: value for name, value in document.items() if name not in ("versions", "region_epoch")}
            for key, document in dict(self.model).items()
        }

    def wait_for(self, log: PublishedLog) -> None:
        """Wait until it has the truth, and its position is the last one that was published."""
        wait_until(lambda: self.fields() == log.truth and self.sequence == log.seq, what=f"seq {log.seq}")

    @property
    def sequence(self) -> int | None:
        return read_cursor(self.cursor).sequence

    def of(self, entity_id: str) -> list[Event]:
        return [event for event in self.events if event.subject == entity_id]


@contextlib.contextmanager
def following(conf: cfg.ConfigOpts, cursor: str | None = None) -> Iterator[Followed]:
    followed = Followed(conf, cursor)
    followed.source.start(followed.take)  # type: ignore[arg-type]
    try:
        yield followed
    finally:
        followed.source.stop(time.monotonic() + deadline(10))


def test_the_model_is_listed_and_each_state_has_the_seq_as_its_version(log: PublishedLog, tmp_path: Path) -> None:
    log.write("gone", n=1)
    log.write("a", n=1)
    log.remove("gone")
    log.snapshot()
    log.write("b", n=1)
    wait_until(log.mirrored)
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
        assert north.listed == [{"a", "b"}]
        assert [event.read()["ids"] for event in north.events if event.type == "federation.aggregate.listed"] == [[]]
        log.write("a", n=2)
        log.remove("b")
        north.wait_for(log)
        wait_until(lambda: north.source.status().state == "connected")
        assert north.source.status().lag == 0
    updated, deleted = north.events[-2:]
    assert (updated.type, updated.subject, updated.origin) == ("federation.instance.changed", "a", "north")
    assert updated.read() == {"versions": {"*": f"{5:020d}"}, "id": "a", "n": 2, "region_epoch": 0}
    assert (deleted.type, deleted.read()) == (
        "federation.instance.deleted", {"id": "b", "versions": {"*": f"{6:020d}"}, "old": {"n": 1}},
    )  # fmt: skip
    assert list_ids(conf, "north", ["instance", "pod"], time.monotonic() + deadline(10)).ids == {
        "instance": {"a"}, "pod": set(),
    }  # fmt: skip


def test_an_entity_that_changed_often_meanwhile_arrives_once(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(3)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
    for number in range(200):
        log.write("e-0", n=number)
    log.remove("e-1")
    log.write("new", n=1)
    wait_until(log.mirrored)
    with following(conf, north.cursor) as again:
        wait_until(lambda: again.sequence == log.seq)
    assert [(event.type.rpartition(".")[2], event.subject) for event in again.events] == [
        ("changed", "e-0"), ("deleted", "e-1"), ("changed", "new"),
    ]  # fmt: skip
    assert again.events[0].read()["n"] == 199


def test_an_entity_that_changed_often_while_the_engine_was_slow_arrives_once(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(3)
    log.snapshot()
    with following(configured(tmp_path, log)) as north:
        north.wait_for(log)
        north.gate.clear()
        for number in range(200):
            log.write("e-0", n=number)
            if number == 100:
                log.remove("e-1")
        log.write("e-2", n=1)
        wait_until(log.delivered)
        north.gate.set()
        north.wait_for(log)
    assert len(north.of("e-0")) < 50
    subjects = [event.subject for event in north.events]  # a read may end between two changes of e-0
    assert [subject for subject, _ in itertools.groupby(subjects)][-3:] == ["e-1", "e-0", "e-2"]


def test_a_listing_lacks_nothing_that_changed_while_the_model_was_read(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(300)
    log.snapshot()
    wait_until(log.mirrored)
    conf = configured(tmp_path, log)
    everything = {f"e-{number}" for number in range(300)}
    with writing(log, 300, deletes=False):
        for _ in range(6):
            with following(conf) as north:
                wait_until(lambda north=north: north.listed)
            assert north.listed == [everything]
    with following(conf, north.cursor) as again:
        wait_until(log.mirrored)
        wait_until(lambda: again.sequence == log.seq)
    assert not again.listed


def test_a_model_whose_last_message_has_expired_is_listed(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(2)
    log.write("gone", n=1)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
        log.remove("gone")
        north.wait_for(log)
    position = read_cursor(north.cursor)
    log.expire_last()
    log.purge()
    with following(conf, north.cursor) as again:
        wait_until(lambda: again.listed)
    assert again.listed == [{"e-0", "e-1"}]
    found = list_ids(conf, "north", ["instance"], time.monotonic() + deadline(10))
    assert found.message >= position.message


def test_the_listing_has_what_a_late_model_lacks(log: PublishedLog, tmp_path: Path) -> None:
    log.snapshot()
    log.fill(2)
    log.delay_model()
    with following(configured(tmp_path, log)) as north:
        wait_until(lambda: north.listed)
    assert north.listed == [{"e-0", "e-1"}]


def test_a_model_that_lacks_what_the_changes_have_discarded_is_no_listing(log: PublishedLog, tmp_path: Path) -> None:
    log.snapshot()
    log.fill(2)
    log.delay_model()
    log.purge(mirrored=False)
    with following(configured(tmp_path, log)) as north:
        wait_until(lambda: f"{log.model} lacks messages" in north.source.status().detail)
    assert not north.listed


def test_a_snapshot_of_another_epoch_is_a_listing_with_newer_versions(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(3)
    log.snapshot()
    with following(configured(tmp_path, log)) as north:
        north.wait_for(log)
        log.epoch, log.seq = "epoch-2", 1
        del log.truth["e-1"]
        log.truth["e-2"] = {"id": "e-2", "n": -1}
        log.snapshot()
        north.wait_for(log)
        log.write("e-0", n=5)
        north.wait_for(log)
    assert north.listed[1:] == [{"e-0", "e-2"}]
    assert [event.read()["region_epoch"] for event in north.of("e-2")] == [0, 1]
    found = read_cursor(north.cursor)
    assert (found.epoch, found.number, found.sequence) == ("log/epoch-2", 1, 2)
    assert found.message > 0


def test_a_state_of_a_snapshot_has_the_seq_of_its_last_change_as_its_version(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(3)
    log.snapshot()
    with following(configured(tmp_path, log)) as north:
        north.wait_for(log)
    assert [north.model[f"e-{n}"]["versions"] for n in range(3)] == [{"*": f"{n + 1:020d}"} for n in range(3)]


def test_a_listing_has_what_changed_after_a_snapshot_that_was_published_meanwhile(
    log: PublishedLog, tmp_path: Path
) -> None:
    log.fill(3)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
    log.snapshot()
    log.write("e-0", n=1)
    wait_until(log.mirrored)
    with following(conf, north.cursor) as again:
        wait_until(lambda: again.sequence == log.seq)
    assert again.listed == [{"e-0", "e-1", "e-2"}]


def test_what_is_left_of_an_epoch_whose_begin_is_replaced_is_no_state(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(2)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
    log.epoch = "epoch-2"
    log.snapshot()
    log.write("left", n=1)
    del log.truth["left"]
    log.epoch = "epoch-3"
    log.snapshot()
    wait_until(log.mirrored)
    with following(conf, north.cursor) as again:
        wait_until(lambda: again.listed)
    assert (again.listed, again.of("left")) == ([{"e-0", "e-1"}], [])


def test_a_purged_position_is_a_new_listing_in_the_same_epoch(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(3)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
    log.remove("e-1")
    log.write("e-0", n=1)
    log.purge()
    with following(conf, north.cursor) as again:
        wait_until(lambda: again.listed and again.fields() == log.truth)
    assert again.listed == [{"e-0", "e-2"}]
    assert read_cursor(again.cursor).number == 0


def test_the_position_of_a_follower_of_the_api_begins_with_a_listing_and_newer_versions(
    log: PublishedLog, tmp_path: Path
) -> None:
    log.fill(2)
    log.snapshot()
    with following(configured(tmp_path, log), "77@epoch-1") as north:
        north.wait_for(log)
    assert [event.read()["region_epoch"] for event in north.events] == [1] * 4


def test_a_foreign_message_is_undecodable_and_the_rest_follows(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(1)
    log.snapshot()
    with following(configured(tmp_path, log)) as north:
        north.wait_for(log)
        log.publish_foreign(b"nonsense")
        log.write("e-0", n=1)
        north.wait_for(log)
    bad = next(event for event in north.events if event.undecodable is not None)
    assert bad.data == b"nonsense"
    assert bad.undecodable is not None
    assert "is no change" in bad.undecodable


def test_an_entity_that_is_too_large_for_the_log_is_listed_and_remains_as_it_was(
    log: PublishedLog, tmp_path: Path
) -> None:
    log.fill(2)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
        before = north.fields()["e-1"]
        log.mark("e-1", n=7)
        log.write("e-0", n=1)
        wait_until(lambda: north.sequence == log.seq)
        assert north.fields()["e-1"] == before
    [refused] = [event for event in north.events if event.undecodable is not None]
    assert refused.undecodable == "instance 'e-1' is too large for the log of the region: read it by REST"
    wait_until(log.mirrored)
    with following(conf) as again:
        wait_until(lambda: again.listed)
    assert again.listed == [{"e-0", "e-1"}]
    found = list_ids(conf, "north", ["instance"], time.monotonic() + deadline(10))
    assert found.ids == {"instance": {"e-0", "e-1"}}


def test_a_model_with_an_undecodable_message_is_no_listing(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(2)
    log.snapshot()
    log.publish_foreign(b"nonsense", "e-1")
    with following(configured(tmp_path, log)) as north:
        wait_until(lambda: "the message 7 of the stream is no change" in north.source.status().detail)
        log.write("e-0", n=1)
        wait_until(lambda: north.sequence == log.seq)
        assert not north.listed
        log.snapshot()
        wait_until(lambda: north.listed)
    assert north.listed == [{"e-0", "e-1"}]


def test_the_worst_messages_are_one_undecodable_event_each_in_the_model_and_in_the_changes(
    log: PublishedLog, tmp_path: Path
) -> None:
    log.fill(1)
    log.snapshot()
    for number, body in enumerate(WORST.values()):
        log.publish_foreign(body, f"odd-{number}")
    log.write("e-1", n=1)
    log.publish_foreign(WORST["deep"], "last")
    wait_until(log.mirrored)
    with following(configured(tmp_path, log)) as north:
        wait_until(lambda: set(north.model) == {"e-0", "e-1"})
        for number, body in enumerate(WORST.values()):
            log.publish_foreign(body, f"odd-{number}")
            log.write("e-0", n=number)
        log.publish_foreign(WORST["deep where nothing is read"], "last")
        expected = sorted([*WORST.values()] * 2 + [WORST["deep"], WORST["deep where nothing is read"]])
        wait_until(lambda: [event for event in north.events if event.data == WORST["deep where nothing is read"]][2:])
        north.wait_for(log)
        assert sorted(event.data for event in north.events if event.undecodable) == expected
        assert north.source.status().reconnects == 0
        assert not north.listed


def test_a_log_whose_begin_is_odd_is_followed_from_there_and_listed_after_the_next_snapshot(
    log: PublishedLog, tmp_path: Path
) -> None:
    log.fill(1)
    log.snapshot()
    log.publish_foreign(WORST["deep"], marker="begin")
    log.write("e-1", n=1)
    wait_until(log.mirrored)
    with following(configured(tmp_path, log)) as north:
        wait_until(lambda: set(north.model) == {"e-1"})
        assert "nothing is deleted" in wait_until(lambda: north.source.status().detail)
        assert not north.listed
        log.snapshot()
        wait_until(lambda: north.listed)
    assert len([event for event in north.events if event.undecodable]) == 1
    assert north.listed == [{"e-0", "e-1"}]


def test_an_undecodable_message_at_the_end_of_the_log_does_not_list_it_again(log: PublishedLog, tmp_path: Path) -> None:
    log.fill(2)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
        log.publish_foreign(b"nonsense")
        wait_until(lambda: any(event.undecodable for event in north.events))
    with following(conf, north.cursor) as again:
        log.write("e-0", n=1)
        wait_until(lambda: again.sequence == log.seq)
    assert not again.listed


def test_an_epoch_is_stored_with_the_first_state_that_it_leads(log: PublishedLog, tmp_path: Path) -> None:
    """Else an engine that ends within the listing, and a change of the driver, would count the same number again."""
    log.fill(3)
    log.snapshot(until=base.SNAPSHOT)
    with following(configured(tmp_path, log), "77@epoch-1") as north:
        wait_until(lambda: len(north.model) == 3)
    found = read_cursor(north.cursor)
    assert (found.sequence, found.epoch, found.number) == (None, "log/epoch-1", 1)
    assert [event.position is None for event in north.events] == [False, True, True]


def test_a_region_restored_while_the_source_was_away_counts_before_its_listing_ends(
    log: PublishedLog, tmp_path: Path
) -> None:
    log.fill(3)
    log.snapshot()
    conf = configured(tmp_path, log)
    with following(conf) as north:
        north.wait_for(log)
    for number in range(3):
        log.write("e-0", n=number)
        log.write("e-1", n=number)
    log.epoch = "epoch-2"
    log.snapshot(until=base.SNAPSHOT)
    wait_until(log.mirrored)
    with following(conf, north.cursor) as again:
        wait_until(lambda: len([each for each in again.events if each.read().get("region_epoch") == 1]) == 3)
    found = read_cursor(again.cursor)
    assert (found.sequence, found.epoch, found.number) == (None, "log/epoch-2", 1)


def test_a_deletion_of_what_made_a_loop_is_no_loop(log: PublishedLog, tmp_path: Path) -> None:
    log.write("a", n=1)
    log.write("south:north:a", n=1)
    log.snapshot()
    log.remove("south:north:a")
    with following(configured(tmp_path, log)) as north:
        north.wait_for(log)


def test_an_entity_of_a_foreign_project_is_followed_without_it(log: PublishedLog, tmp_path: Path) -> None:
    log.write("own", project_id="p")
    log.write("foreign", project_id="q")
    log.snapshot()
    with following(configured(tmp_path, log, "projects = p")) as north:
        wait_until(lambda: north.listed)
        wait_until(lambda: "other projects" in north.source.status().detail)
    assert {key: document["project_id"] for key, document in north.model.items()} == {"own": "p", "foreign": None}


def test_an_entity_that_shows_a_loop_is_left_out_and_all_others_are_followed(log: PublishedLog, tmp_path: Path) -> None:
    log.write("south:north:a", n=1)
    log.snapshot()
    log.write("south:north:b", n=1)
    log.write("c", n=1)
    with following(configured(tmp_path, log)) as north:
        wait_until(lambda: "c" in north.model)
        wait_until(lambda: north.source.status().detail.startswith("loop north -> south -> north"))
        assert north.source.status().state == "connected"
    assert set(north.model) == {"c"}


def test_a_missing_log_is_reported_and_followed_when_it_appears(log: PublishedLog, tmp_path: Path) -> None:
    conf = configured(tmp_path, log)
    with following(conf) as north:
        wait_until(lambda: "has no snapshot yet" in north.source.status().detail)
        log.fill(1)
        log.snapshot()
        north.wait_for(log)
        wait_until(lambda: north.source.status().state == "connected")
    FederationLogSource("north", conf).probe()
    log.delete()
    with pytest.raises(SourceError, match=f"the stream {log.stream}: stream not found"):
        FederationLogSource("north", conf).probe()


def test_wrong_options_are_named(log: PublishedLog, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[source_north\] site: 'a b'"):
        FederationLogSource("north", configured(tmp_path, log, "site = a b"))
    with pytest.raises(ConfigError, match=r"\[source_north\] token: cannot be set beside user"):
        FederationLogSource("north", configured(tmp_path, log, "user = u", "token = t"))


def test_where_the_model_goes_away_while_waiting_states_are_read_the_changes_are(
    log: PublishedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, asked = configured(tmp_path, log), itertools.count()
    running: list[Followed] = []
    log.write("a", n=1)
    log.snapshot()
    with following(conf) as north:
        north.wait_for(log)
    for n in (2, 3):
        log.write("a", n=n)
        log.write("b", n=n)
    log.remove("b")
    wait_until(log.mirrored)

    async def find(js: JetStreamContext, stream: str) -> CurrentModel:
        if next(asked):  # it was there when the reading began
            await eventually(lambda: running and running[0].of("a"))  # else state and change may be one event
            raise LogLost("the model is gone")
        return await find_model(js, stream)

    monkeypatch.setattr(follower, "find_model", find)
    with following(conf, north.cursor) as again:
        running.append(again)
        wait_until(lambda: len(again.of("a")) > 1)  # the state, and then the changes
        log.write("a", n=4)
        again.wait_for(log)
        assert again.listed == []


def test_changes_arrive_while_the_model_does_not_follow(log: PublishedLog, tmp_path: Path) -> None:
    """The model is a mirror, which a server may leave as it is for most of a minute after the loss of a node."""
    log.write("a", n=1)
    log.snapshot()
    with following(configured(tmp_path, log)) as north:
        north.wait_for(log)
        log.write("a", n=2)
        north.wait_for(log)
        log.stop_mirroring()
        log.write("a", n=3)
        north.wait_for(log)
