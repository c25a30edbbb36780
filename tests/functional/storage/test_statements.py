# SPDX-License-Identifier: Apache-2.0
"""What reaches a table is what the model holds, however a database takes its rows."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from tests.functional.storage.writing import commit, cycle_on, journal, meter, rows
from tests.simulated import told, whole
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert

TEXTS = [
    "",
    "it's",
    'a "quoted" one',
    "back\\slash",
    "\\u0041",
    "%s and %%",
    "{}",
    "null",
    "žluťoučký",
    "🦀",
    "a\tb\nc\r\n\\.\n",
    "\\N",
    "\\.",
    " ",
]


@pytest.mark.parametrize("alone", [False, True])
def test_texts_that_mean_something_to_json_or_sql_are_written_as_they_are(store, alone):
    cycle = cycle_on(store)
    events = [told(i, meter(f"m{i}", owner=text)) for i, text in enumerate(TEXTS)]
    for batch in [[event] for event in events] if alone else [events]:
        cycle.run(Batch(events=batch))
    assert {row.id: row.owner for row in rows(store, "meters")} == {f"m{i}": text for i, text in enumerate(TEXTS)}
    assert whole(store.load()) == whole(cycle.model)


@pytest.mark.parametrize("alone", [False, True])
def test_the_journal_has_the_same_texts_and_the_time_of_the_commit(store, alone):
    now = datetime.datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=datetime.UTC)
    store._now = lambda: now
    cycle = cycle_on(store)
    events = [msgspec.structs.replace(told(i, meter(f"m{i}", owner=text)), id=text) for i, text in enumerate(TEXTS)]
    for batch in [[event] for event in events] if alone else [events]:
        commit(cycle, *batch)
    written = journal(store)
    assert [(row.event_id, row.delta["owner"]) for row in written] == [(text, [None, text]) for text in TEXTS]
    assert {row.time for row in written} == {now}


@pytest.mark.parametrize("reading", [0, -1, 2**53 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 1e-300, 1.7976931348623157e308, -2.5])
def test_numbers_keep_every_digit(store, reading, ratio):
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, meter("m", reading=reading, ratio=ratio))]))
    assert [(row.reading, row.ratio) for row in rows(store, "meters")] == [(reading, ratio)]


@pytest.mark.parametrize("microsecond", [0, 1, 999_999])
@pytest.mark.parametrize("year", [1971, 2026, 9000])
def test_times_keep_their_microseconds_and_their_zone(store, year, microsecond):
    time = datetime.datetime(year, 3, 1, 12, 0, 0, microsecond, tzinfo=datetime.UTC)
    cycle = cycle_on(store)
    fields = {"status": {"status": "RUNNING", "status_updated_at": time}, "output": {"output_spec": {"a": ['"', None]}}}
    cycle.run(Batch(events=[told(1, Upsert("service_type_instance", "i", "1", {"spec": {"spec": {}}} | fields))]))
    loaded = store.load().get("service_type_instance", "i")
    assert (loaded.status_updated_at, loaded.output_spec) == (time, {"a": ['"', None]})
    assert whole(store.load()) == whole(cycle.model)
