# SPDX-License-Identifier: Apache-2.0
"""Each change fits into what a log takes, and a portion into what is published at once."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.functional.log.memory_log import NAME, MemoryLog, MemoryOutlet, configured
from tests.functional.log.publishing import PARTITION, change, snapshot
from watcher_sync.client.log.messages import decoded
from watcher_sync.extensions.log import fitting
from watcher_sync.extensions.log.base import CREATED, DELETED, SNAPSHOT, UPDATED, ChangeTooLarge, LogChange, OutletError
from watcher_sync.extensions.log.fitting import MIN_LIMIT, Fitting
from watcher_sync.extensions.log.formats import CLOUDEVENTS, DEBEZIUM
from watcher_sync.extensions.log.metrics import OutletStats
from watcher_sync.extensions.log.oslo_messaging.notifications import notification
from watcher_sync.extensions.log.schemas import message_schema
from watcher_sync.testing.kinds import builtin_kinds

KIND = builtin_kinds()["instance"]


def fitting_for(limit: int | None, format_name: str = CLOUDEVENTS) -> Fitting:
    outlet = MemoryOutlet(NAME, configured(), MemoryLog())
    if format_name == "oslo":
        outlet.encode = notification
    else:
        outlet = MemoryOutlet(NAME, configured(format=format_name), MemoryLog())
    outlet.limit = limit
    return Fitting(outlet, OutletStats(NAME), lambda: 0.0)


def one(fitting_: Fitting, made: LogChange) -> LogChange:
    [[found]] = fitting_.portions([made])
    return found


def document(**fields: Any) -> dict[str, Any]:
    """An instance with all its fields."""
    return msgspec.to_builtins(KIND.to_json(KIND.cls(id="i", project_id="p", **fields)))


def large(what: str, size: int) -> LogChange:
    """A change whose entity has a field of so many bytes before and after."""
    before, after = document(metadata={"a": "x" * size}), document(metadata={"a": "y" * size})
    return change(
        7,
        id="i",
        change=what,
        delta={} if what == SNAPSHOT else {"metadata": (before["metadata"], after["metadata"])},
        before=None if what in (CREATED, SNAPSHOT) else before,
        after=None if what == DELETED else after,
        project_id="p",
    )


@pytest.mark.parametrize("format_name", [CLOUDEVENTS, DEBEZIUM])
@pytest.mark.parametrize(
    ("what", "size", "omitted"),
    [
        (UPDATED, 1_000, ()),
        (UPDATED, 60_000, ("old", "new")),
        (UPDATED, 120_000, ("old", "new", "entity")),
        (CREATED, 120_000, ("old", "new", "entity")),
        (SNAPSHOT, 120_000, ("entity",)),
        (DELETED, 120_000, ("old", "new")),
    ],
)
def test_a_change_above_the_limit_lacks_what_its_message_names_and_is_as_its_schema_says(
    format_name: str, what: str, size: int, omitted: tuple[str, ...]
) -> None:
    found = one(fitting_for(100_000, format_name), large(what, size))
    assert len(found.body) <= 100_000
    jsonschema.Draft202012Validator(message_schema(format_name, KIND)).validate(json.loads(found.body))
    read = decoded(found.body, 1)
    assert (read.omitted, read.change, read.kind, read.id, read.project_id) == (omitted, what, "instance", "i", "p")
    assert read.exists == (what != DELETED)
    if omitted:
        assert (bytes(read.old), bytes(read.new)) == (b"{}", b"{}")
    if "entity" in omitted:
        assert msgspec.json.decode(read.entity) == {"id": "i", "project_id": "p"}
    elif what != DELETED:
        assert msgspec.json.decode(read.entity) == large(what, size).after


_WORDS = st.text(st.sampled_from('x"\\\x01\U0001f600'), min_size=255, max_size=255)


@settings(max_examples=50, deadline=None)
@given(
    format_name=st.sampled_from([CLOUDEVENTS, DEBEZIUM, "oslo"]),
    what=st.sampled_from([CREATED, UPDATED, DELETED, SNAPSHOT]),
    word=_WORDS,
)
def test_every_marker_fits_into_the_least_limit(format_name: str, what: str, word: str) -> None:
    made = msgspec.structs.replace(
        large(what, MIN_LIMIT),
        id=word,
        partition="p" * 64,
        project_id=word,
        before=None if what in (CREATED, SNAPSHOT) else {"id": word, "project_id": word, "metadata": "x" * MIN_LIMIT},
        after=None if what == DELETED else {"id": word, "project_id": word, "metadata": "x" * MIN_LIMIT},
        versions=dict.fromkeys(KIND.facets, "9" * 64),
        event_id=word,
        event_type="x" * 255,
        source="s" * 64,
        actor={"user_id": "u" * 255, "project_id": "p" * 255, "request_id": "r" * 255},
    )
    assert len(one(fitting_for(MIN_LIMIT, format_name), made).body) <= MIN_LIMIT


def test_a_log_that_takes_less_than_a_marker_is_refused_by_what_limits_it() -> None:
    with pytest.raises(OutletError, match="takes messages of 4096 bytes, and 32768 are needed: raise its limit"):
        fitting_for(4096).begin()


@given(
    takes=st.integers(MIN_LIMIT, 10_000_000),
    told=st.none() | st.integers(MIN_LIMIT, 20_000_000),
    says=st.booleans(),
    sizes=st.lists(st.integers(0, 2_000_000), min_size=1, max_size=20),
)
@example(takes=MIN_LIMIT, told=None, says=False, sizes=[2_000_000 - 10_000 * number for number in range(20)])
def test_a_log_that_tells_its_limit_late_has_all_changes_after_a_few_refusals(
    takes: int, told: int | None, says: bool, sizes: list[int]
) -> None:
    log, refusals = MemoryLog(), 0
    log.limit, log.takes, log.refusal_tells = told, takes, says
    outlet = MemoryOutlet(NAME, configured(partition=PARTITION), log)
    made = Fitting(outlet, OutletStats(NAME), lambda: 0.0)
    for seq, size in enumerate(sizes, start=1):
        while len(log.changes) < seq:
            outlet.open({})
            made.begin()
            try:
                made.publish(next(made.portions([change(seq, after={"id": "i", "filler": "x" * size})])))
            except ChangeTooLarge:
                refusals += 1
                assert refusals <= (1 if says else 10)
    assert [each.seq for each in log.changes] == list(range(1, len(sizes) + 1))


@given(
    commits=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), max_size=8),
)
def test_portions_have_all_changes_in_order_and_end_with_a_commit_that_fits(commits: list[list[int]]) -> None:
    most = 3_000  # bytes; a change has 500 and more
    made, seq = [], 0
    for sizes in commits:
        for index, size in enumerate(sizes, start=1):
            seq += 1
            after = {"id": "i", "filler": "x" * 500 * size}
            made.append(change(seq, after=after, before=None, delta={}, ends_commit=index == len(sizes)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "PORTION_BYTES", most)
        portions = list(fitting_for(None).portions(made))
    assert [each.seq for portion in portions for each in portion] == list(range(1, seq + 1))
    for portion in portions:
        assert len(portion) == 1 or sum(len(each.body) for each in portion) <= most
        if not portion[-1].ends_commit:
            assert not any(each.ends_commit for each in portion)


def test_encoded_bodies_are_made_as_they_are_wanted() -> None:
    """A snapshot of many large entities is never in memory as a whole."""
    taken = []

    def entities() -> Any:
        for each in snapshot(1, [f"i-{number}" for number in range(100)]):
            taken.append(each.id)
            yield msgspec.structs.replace(each, after={"id": each.id, "filler": "x" * 1_000_000})

    first = next(fitting_for(None).portions(entities()))
    assert len(first) == len(taken) - 1 == 9
    assert sum(len(each.body) for each in first) <= fitting.PORTION_BYTES


def test_what_did_not_fit_is_counted_and_shown_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    outlet, now, stats = MemoryOutlet(NAME, configured(), MemoryLog()), [0.0], OutletStats(NAME)
    outlet.limit = 100_000
    made = Fitting(outlet, stats, lambda: now[0])
    made.begin()
    assert made.detail == ""
    for now[0] in (0.0, 59.0, 61.0):
        one(made, large(UPDATED, 120_000))
    what = "instance 'i' at seq 7 has 361094 bytes"
    assert (stats.omitted, sum(what in record.getMessage() for record in caplog.records)) == (3, 2)
    assert made.detail.startswith(f"changes that are too large for the log: 3; the last one: {what}")
    assert "the log takes 100000: published without old, new, entity" in made.detail
    made.begin()
    assert made.detail == ""
