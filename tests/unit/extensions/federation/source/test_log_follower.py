# SPDX-License-Identifier: Apache-2.0
"""The follower of a log and what any message of it becomes: a change, or one event for the quarantine."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oslo_config import cfg

from tests.unit.extensions.federation.handler.test_handler import DISPATCHER, KINDS
from tests.unit.extensions.federation.source.odd_messages import EPOCH, ODD, WORST, message, nested
from watcher_sync.client.log import LogReading, UnknownMessage
from watcher_sync.client.log.messages import decoded
from watcher_sync.client.log.received import LogMessage, ModelBegins, ModelEnds, Received
from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.federation.source.following import DeleteGuard
from watcher_sync.extensions.federation.source.log_follower import RegionLogFollower
from watcher_sync.extensions.federation.source.log_options import LOG_OPTIONS, LogSettings
from watcher_sync.extensions.federation.source.states import RegionCursor, read_cursor
from watcher_sync.extensions.log import base, formats
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction

BEGIN: Final = ModelBegins(message(base.SNAPSHOT_BEGIN), "no_position", 1)
DEEP: Final = message(metadata="deep").replace(b'"deep"', nested(101))
"""Its decoder reads it, and others with less room on their stack would not."""
OLD_LIST: Final = message(base.DELETED).replace(b'"old":{}', b'"old":[1]')
"""The source passes it on, and the handler refuses it."""


class Followed:
    """A follower without a log, and the model that its events make."""

    def __init__(self, folder: pathlib.Path, cursor: RegionCursor | None = None) -> None:
        file = folder / "c.conf"
        file.write_text(
            "[engine]\nenabled_sources=north\n[source_north]\ndriver=federation_log\nservers=nats://[::1]:1\n"
        )
        conf = cfg.ConfigOpts()
        opts.register_opts(conf)
        conf([], default_config_files=[str(file)])
        opts.register_source(conf, "north", LOG_OPTIONS)
        self.events: list[Event] = []
        self.quarantined: list[Event] = []
        self.model = Model(KINDS)
        settings_ = LogSettings("north", conf.source_north)
        self.follower = RegionLogFollower(settings_, self.take, cursor or RegionCursor(), DeleteGuard(100.0), [*KINDS])

    def take(self, events: Sequence[Event]) -> None:
        transaction = Transaction(self.model)
        for event in events:
            self.events.append(event)
            entry = DISPATCHER.find(event.type)
            try:
                if event.undecodable is not None:
                    raise InvalidEvent(event.undecodable)
                assert entry is not None
                assert entry.call is not None
                transaction.apply(event, entry.call(event, transaction) or ())
            except InvalidEvent:
                self.quarantined.append(event)
        self.model.publish(transaction)
        for kind in KINDS.values():
            msgspec.json.encode([kind.to_json(entity) for entity in self.model.snapshot().all(kind.name)])

    def read(self, *received: Received) -> None:
        self.follower._pass_on(received)

    def ids(self) -> set[str]:
        return set(self.model.snapshot().ids("instance"))

    @property
    def position(self) -> RegionCursor:
        return read_cursor(next((event.position for event in reversed(self.events) if event.position), None))


def change(sequence: int, data: bytes, marker: str = "") -> LogMessage:
    return LogMessage(sequence, data, of_model=False, marker=marker)


@pytest.mark.parametrize("odd", [*WORST.values(), OLD_LIST, DEEP], ids=[*WORST, "old that is a list", "deep"])
@pytest.mark.parametrize("of_model", [True, False], ids=["model", "changes"])
def test_an_odd_message_is_one_quarantined_event_and_the_next_one_is_followed(
    tmp_path: pathlib.Path, odd: bytes, of_model: bool
) -> None:
    north = Followed(tmp_path)
    model = [LogMessage(2, odd, True), LogMessage(3, message(entity_id="b", seq=3), True), ModelEnds(3)]
    north.read(BEGIN, *model) if of_model else north.read(BEGIN, ModelEnds(1), change(2, odd))
    north.read(change(4, message(entity_id="c", seq=4)))
    assert len(north.quarantined) == 1
    assert north.ids() == ({"north:b", "north:c"} if of_model else {"north:c"})
    assert (north.position.sequence, north.position.message) == (4, 4)


@pytest.mark.parametrize("form", [formats.CLOUDEVENTS, formats.DEBEZIUM])
def test_a_model_whose_begin_is_odd_is_followed_in_its_epoch_and_deletes_nothing(
    tmp_path: pathlib.Path, form: str
) -> None:
    north = Followed(tmp_path, RegionCursor(9, "log/before", message=9))
    north.read(ModelBegins(b"odd", "purged", 1), LogMessage(2, message(entity_id="a", form=form), True), ModelEnds(2))
    north.read(change(3, message(entity_id="b", seq=2, form=form)))
    assert north.ids() == {"north:a", "north:b"}
    assert not [event for event in north.events if event.type.endswith(".listed")]
    assert (north.position.epoch, north.position.number, north.position.message) == ("log/e", 1, 3)
    assert "nothing is deleted by the model of the region" in "".join(north.follower._details())


def test_a_state_before_a_marker_remains_and_each_entity_with_markers_is_one_event(tmp_path: pathlib.Path) -> None:
    north = Followed(tmp_path)
    north.read(BEGIN, ModelEnds(1))
    markers = [message(entity_id=each, seq=seq, omitted=("entity",)) for seq, each in ((3, "a"), (4, "a"), (5, "b"))]
    north.read(change(2, message(entity_id="a", seq=2)), *(change(n, data) for n, data in enumerate(markers, 3)))
    north.read(change(6, markers[0]))
    assert north.ids() == {"north:a"}
    assert len({(event.id, event.data) for event in north.quarantined}) == 2


@pytest.mark.parametrize("data", [b"odd", message(base.SNAPSHOT_BEGIN)], ids=["unknown", "known"])
def test_a_model_without_any_message_ends(tmp_path: pathlib.Path, data: bytes) -> None:
    north = Followed(tmp_path)
    north.read(ModelBegins(data, "purged", 1), ModelEnds(1), change(2, message(entity_id="b", seq=2)))
    assert (north.position.message, north.ids()) == (2, {"north:b"})


def test_a_snapshot_whose_end_is_odd_deletes_nothing_and_the_position_moves(tmp_path: pathlib.Path) -> None:
    north = Followed(tmp_path)
    north.read(
        BEGIN,
        LogMessage(2, message(), True),
        ModelEnds(2),
        change(3, message(base.SNAPSHOT_BEGIN), base.SNAPSHOT_BEGIN),
    )
    north.read(change(4, b"odd", base.SNAPSHOT_END), change(5, message(entity_id="b", seq=5)))
    assert (north.ids(), north.position.message) == ({"north:a", "north:b"}, 5)


def test_the_members_that_the_source_adds_count_whatever_the_entity_has(tmp_path: pathlib.Path) -> None:
    north = Followed(tmp_path)
    north.read(BEGIN, ModelEnds(1), change(2, message(versions={"*": "~~"}, seq=2)))
    assert north.events[-1].read()["versions"] == {"*": f"{2:020d}"}


def test_a_failure_at_one_message_has_longer_pauses_though_each_reading_begins_well(tmp_path: pathlib.Path) -> None:
    north = Followed(tmp_path)
    good, loop = LogMessage(2, message(), True), change(3, message(seq=3))
    pauses: list[float] = []
    for _ in range(4):
        north.read(BEGIN, good)
        north.follower._log.change_of(loop)
        pauses.append(north.follower._backoff.failed(north.follower._log.message))
        assert north.follower._backoff.failures == len(pauses)
    north.read(change(4, message(seq=4)))
    assert north.follower._backoff.failures == 0


@settings(deadline=None, max_examples=400)
@given(odd=ODD, of_model=st.booleans(), is_begin=st.booleans(), more=st.lists(ODD, max_size=2))
def test_whatever_a_message_is_nothing_is_raised_and_the_next_one_is_followed(
    tmp_path_factory: pytest.TempPathFactory, odd: bytes, of_model: bool, is_begin: bool, more: list[bytes]
) -> None:
    assume(not any(_is_of_another_epoch(each) for each in [odd, *more]))
    north = Followed(tmp_path_factory.getbasetemp())
    begin = ModelBegins(odd, "purged", 1) if is_begin else BEGIN
    north.read(begin, *(LogMessage(2 + n, each, of_model) for n, each in enumerate([odd, *more])), ModelEnds(5))
    north.read(change(6, message(entity_id="next", seq=6)))
    assert "north:next" in north.ids()
    assert len(north.quarantined) <= 1 + is_begin + len(more)
    assert north.position.message == 6


def _is_of_another_epoch(data: bytes) -> bool:
    """Whether it may rightly begin another epoch, in which the next message is not followed."""
    return any(_epoch_of(data, marker) not in (EPOCH, "") for marker in ("", base.SNAPSHOT_BEGIN))


def _epoch_of(data: bytes, marker: str) -> str:
    try:
        return decoded(data, 1, marker).epoch
    except UnknownMessage:
        return ""


@settings(deadline=None, max_examples=400)
@given(odd=ODD, of_model=st.booleans())
def test_a_reading_goes_on_behind_whatever_is_no_change(odd: bytes, of_model: bool) -> None:
    reading = LogReading()
    found: list[Any] = []
    unknown: list[int] = []
    last = LogMessage(9, message(entity_id="next", seq=9), of_model=False)
    for each in (BEGIN, LogMessage(2, odd, of_model), ModelEnds(2), last):
        try:
            found.append(reading.entry(each))
        except UnknownMessage as exc:
            unknown.append(exc.sequence)
    assert unknown in ([], [2])
    assert found[-1].id == "next"
    assert found[-1].position == {"p": ("e", 9, 9)}
